"""Models, optimizers and other objects that calls of libraries make, and copies of models."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import apart, containers, losses, owners
from .replacing import replace
from .values import EMPTY, GLOBAL, HOST, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

_SCHEDULERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR", "transformers.get_")
_LIBRARY_MODELS = (
    "torchvision.models.",
    "timm.",
    "transformers.",
    "torch.hub.load",
    "torch_geometric.nn.",
    "segmentation_models_pytorch.",
)


def construct(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value | None:
    """Objects of torch and of known libraries, `None` if the name makes none."""
    last = ref.rsplit(".", 1)[-1]
    if ref.startswith(_SCHEDULERS) and (last[:1].isupper() or last.startswith("get_")):
        ip.made.schedulers[node] = None
        return made_by(ip, ref, node, frame, Role.SCHEDULER)
    if ref.startswith("torch.optim.swa_utils."):
        return averaged(ip, arguments.get(0, "model"), node, frame) if last == "AveragedModel" else None
    if ref.startswith("torch.optim.") and (last[:1].isupper() or last == "<dynamic>"):
        value = made_by(ip, ref, node, frame, Role.OPTIMIZER)
        owners.own_parameters(ip, node, arguments, frame, ref, value.objs)
        return replace(value, params=union(v.params for _, v in arguments.all))
    if ref.startswith("torch.utils.data."):
        return _data(ip, ref, last, arguments, node, frame)
    if ref.startswith("torch.nn.") and last == "from_pretrained":
        return made_by(ip, ref.removesuffix(".from_pretrained"), node, frame, Role.MODEL)
    dynamic = ref == "torch.nn.<dynamic>"
    if dynamic or (ref.startswith("torch.nn.") and last[:1].isupper() and not ref.startswith("torch.nn.init.")):
        return layer(ip, ref, last, arguments, node, frame)
    if ref.startswith(_LIBRARY_MODELS) and not _is_of_training(ref):
        return made_by(ip, ref, node, frame, Role.MODEL)
    if last == "GradScaler" and ref.startswith("torch."):
        return made_by(ip, ref, node, frame, Role.SCALER)
    if last == "SummaryWriter":
        return made_by(ip, ref, node, frame, Role.WRITER)
    if ref == "torch.device":
        return Value(batch=GLOBAL, roles=frozenset({Role.DEVICE}))
    if ref.startswith(("torchvision.datasets.", "datasets.load_dataset", "torchaudio.datasets.")):
        value = made_by(ip, ref, node, frame, Role.DATASET)
        for cell in value.objs:
            ip.heap.add(cell, Value(items=(HOST, HOST)) if ref.startswith("torchvision") else EMPTY)
        return value
    return None


def _is_of_training(ref: str) -> bool:
    """Whether a name of a library of models is of what else a training needs: data, optimizers, settings."""
    last = ref.rsplit(".", 1)[-1]
    if ref.startswith(("timm.optim.", "timm.scheduler.", "timm.data.", "transformers.optimization.")):
        return True
    return ref.startswith("transformers.") and (
        "Tokenizer" in ref or "Config" in last or last.startswith("set_") or last in ("AdamW", "Adafactor")
    )


def _data(ip: Interpreter, ref: str, last: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Datasets, samplers and loaders of torch.utils.data."""
    if last == "DataLoader":
        value = made_by(ip, ref, node, frame, Role.LOADER)
        ip.made.loaders[node] = None
        (cell,) = value.objs
        ip.heap.store(cell, "dataset", arguments.get(0, "dataset"))
        ip.heap.store(cell, "collate_fn", arguments.get(6, "collate_fn"))
        _remember_batch_size(ip, arguments, node)
        if ip.program.by_hand:
            apart.loader(ip, arguments, node)
        return replace(value, sources=frozenset({node}))
    if last == "random_split":
        dataset = arguments.get(0, "dataset")
        cell = ip.allocate(node, frame, "part", ref="torch.utils.data.Subset")
        ip.heap.store(cell, "dataset", dataset)
        return Value(element=Value(objs=frozenset({cell}), roles=frozenset({Role.DATASET})))
    role = Role.SAMPLER if last.endswith("Sampler") else Role.DATASET
    value = made_by(ip, ref, node, frame, role)
    (cell,) = value.objs
    if last == "TensorDataset":
        known = not arguments.unpacked
        count = len(arguments.positional)
        ip.heap.store(cell, "count", Value(const=count) if known else EMPTY)
    elif last in ("Subset", "ConcatDataset"):
        ip.heap.store(cell, "dataset", arguments.get(0, "dataset"))
    elif ip.program.by_hand and last.endswith("BatchSampler"):
        ip.heap.store(cell, "sampler", arguments.get(0, "sampler"))
    return value


def _remember_batch_size(ip: Interpreter, arguments: Arguments, node: ast.Call) -> None:
    """The batch size of a loader as source text (or constant), to recognise tensors created with it."""
    given = arguments.keywords.get("batch_size") or (arguments.positional[1] if len(arguments.positional) > 1 else None)
    if given is not None:
        expression, value = given
        named = value.size0 or ip.text(expression)
        ip.batch_sizes[node] = repr(value.const) if isinstance(value.const, int) else named


def made_by(ip: Interpreter, ref: str, node: ast.Call, frame: Frame, role: Role) -> Value:
    """An object that a call of a library makes, with the role that it has in a training script."""
    ip.note_way(frame, ip.made.making_defs)  # each call of these functions makes others
    cell = ip.allocate(node, frame, "object", ref=ref)
    ip.heap.mark(cell, role)
    return Value(objs=frozenset({cell}), roles=frozenset({role}))


def layer(ip: Interpreter, ref: str, last: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """A layer, a loss, or a container of modules."""
    role = Role.CRITERION if losses.module_loss(ref) else Role.MODEL
    value = made_by(ip, ref, node, frame, role)
    (cell,) = value.objs
    containers.fill(ip, cell, arguments)
    return value


def deep_copy(ip: Interpreter, value: Value, node: ast.Call, frame: Frame) -> Value:
    """A deep copy: of a model, another model that no optimizer owns."""
    if not value.has(Role.MODEL):
        return replace(value, is_param=False)
    cells = []
    for original in value.objs:
        held = ip.heap[original]
        cell = ip.allocate(node, frame, f"copy{original}", cls=held.cls, ref=held.ref)
        ip.heap.mark(cell, Role.MODEL)
        for name, kept in held.attrs.items():
            ip.heap.store(cell, name, kept)
        cells.append(cell)
    return Value(objs=frozenset(cells), roles=value.roles, wrapped=value.wrapped)


def averaged(ip: Interpreter, model: Value, node: ast.Call, frame: Frame) -> Value:
    """`AveragedModel(model)`: a copy that no optimizer owns, held under `module`."""
    ip.note_way(frame, ip.made.making_defs)  # each call of these functions makes others
    value = deep_copy(ip, model, node, frame)
    for cell in value.objs:
        ip.heap.store(cell, "module", value)
        ip.made.averages.add(cell)
    return value
