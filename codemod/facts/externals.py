"""Calls of what lies outside the program: constructors of torch, its functions, the runtime, foreign code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import (
    alike,
    attributes,
    changes,
    collating,
    collectives,
    combining,
    containers,
    creation,
    distributions,
    foreign,
    loops,
    making,
    models,
    modules,
    order,
    packing,
    partial,
    pieces,
    runtimecalls,
    saved,
    sinks,
    tensors,
)
from .joins import join_all
from .local import is_local
from .losstable import DIVISORS
from .replacing import replace
from .torchnames import TORCH_SPACES
from .values import EMPTY, GLOBAL, HOST, Batch, Dep, Role, Value, union

if TYPE_CHECKING:
    from .arguments import Arguments
    from .interpreter import Frame, Interpreter

DATA_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel",
                 "torch.nn.parallel.data_parallel.DataParallel")  # fmt: skip
NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")
_PASS_THROUGH = {
    "torch.compile", "torch.jit.script", *DATA_PARALLEL, "copy.copy",
    "itertools.islice", "itertools.cycle", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "rich.progress.track",
    "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.autograd.Variable",
    "torch.utils.data.dataloader.default_collate", "torch.utils.data.default_collate",
    "torch.utils.data._utils.collate.default_collate", "copy.deepcopy", "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm", "torch.nn.utils.parametrizations.spectral_norm",
    "peft.get_peft_model", "peft.prepare_model_for_kbit_training", "peft.PeftModel.from_pretrained",
}  # fmt: skip
_CLIPS = {"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm",
          "torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_value_"}  # fmt: skip


def class_roles(ip: Interpreter, cls: ast.ClassDef) -> set[Role]:
    """Roles of the instances of a class of the program."""
    roles = set()
    if ip.classes.is_module(cls):
        roles.add(Role.MODEL)
    if ip.classes.is_loader(cls):
        roles.add(Role.LOADER)
    elif ip.classes.is_dataset(cls):
        roles.add(Role.DATASET)
    if ip.classes.is_optimizer(cls):
        roles.add(Role.OPTIMIZER)
    return roles


def initialise_base(ip: Interpreter, cell: int, arguments: Arguments, frame: Frame) -> None:
    """What an external base class's constructor keeps: a loader its dataset, a `Sequential` its modules."""
    if Role.LOADER in ip.heap[cell].roles:
        ip.heap.store(cell, "dataset", arguments.get(0, "dataset"))
        if "collate_fn" in arguments.keywords:
            ip.heap.store(cell, "collate_fn", arguments.keywords["collate_fn"][1])
    if Role.MODEL in ip.heap[cell].roles and arguments.all:
        containers.fill(ip, cell, arguments)


def call(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Value of a call of a dotted name."""
    if ref.startswith("distify.runtime."):
        return runtimecalls.call(ip, ref[16:], arguments, node, frame)
    by_hand = collectives.call(ip, ref, arguments, node, frame) if ip.program.by_hand else None
    if by_hand is not None:
        return by_hand
    if ref.startswith(alike.SHARED):
        alike.drawn(ip, arguments, node, frame)
    if ref == "functools.partial":
        return partial.make(ip, arguments, node, frame)
    if ref in _PASS_THROUGH:
        return _pass_through(ip, ref, arguments, node, frame)
    if ref in _CLIPS:
        ip.made.clips[node] = None
        return HOST
    if ref in ("itertools.chain", "itertools.product", "itertools.chain.from_iterable"):
        return Value(element=join_all(v.element or EMPTY for _, v in arguments.all),
                     params=union(v.params for _, v in arguments.all))  # fmt: skip
    if ref == "collections.deque":
        cell = ip.allocate(node, frame)
        ip.heap.add(cell, loops.element(ip, arguments.positional[0][1], frame) if arguments.positional else EMPTY)
        return Value(objs=frozenset({cell}))
    if ref == "importlib.import_module" and node.args:
        return modules.by_call(ip, node) or unknown(ip, arguments, node, frame, ref)
    if ref in saved.SAVES:
        saved.save(ip, arguments, node)
    if ref in saved.LOADS:
        return saved.load(ip, node, frame) or unknown(ip, arguments, node, frame, ref)
    if ref in ("torch.autograd.backward",):
        return runtimecalls.backward(ip, arguments.get(0, "tensors"), arguments.positional[:1], node, frame)
    if ref in ("torch.nn.parallel.data_parallel", "torch.nn.parallel.parallel_apply"):
        held = arguments.positional[:1]
        arguments.positional = arguments.positional[1:2]
        return join_all(models.run(ip, cell, arguments, node, frame) for _, v in held for cell in v.objs)
    if ref.startswith("torch.nn.utils."):
        _over_parameters(ip, ref, arguments, frame)
    if ref in ("torch.vmap", "torch.func.vmap"):
        along = arguments.get(1, "in_dims")
        if along != EMPTY and along.const != 0:
            ip.sites.report("DST110", node, "It runs its function on the whole of another dimension than the first.")
    if ref == "torch.utils.checkpoint.checkpoint":
        return _checkpoint(ip, arguments, node, frame)
    if ref.startswith("torch.distributions."):
        return distributions.construct(ip, arguments, node, frame)
    if packing.is_packing(ref):
        return packing.call(ip, ref, arguments, node, frame)
    made = making.construct(ip, ref, arguments, node, frame)
    if made is not None:
        return made
    if ref.startswith("torch.autograd.grad"):
        return runtimecalls.gradient(ip, arguments, node, frame)
    generator = _GENERATORS.get(ref)
    if generator is not None:
        unknown(ip, arguments, node, frame, ref)
        return Value(ref=generator)
    if ref in ("random.choice", "random.<generator>.choice") and pieces.has(
        one := loops.element(ip, arguments.get(0, "seq"), frame)
    ):
        return one
    if ref in ("random.sample", "random.choices", "random.<generator>.sample", "random.<generator>.choices"):
        element = loops.element(ip, arguments.get(0, "population"), frame)
        return Value(batch=GLOBAL, element=element, rows=bool(frame.loops), origin=node if frame.loops else None)
    if ref.startswith("numpy.random.") and frame.loops and _draws_an_array(ref, arguments):
        value = unknown(ip, arguments, node, frame, ref)
        return replace(value, origin=node)
    if ref in ("numpy.array_split", "numpy.split"):
        return pieces.cut("split", arguments.positional, arguments.keywords) or unknown(ip, arguments, node, frame, ref)
    if _is_tensor_type(ref):
        return creation.typed(ip, arguments.positional, node, frame)
    if _is_torch_function(ref):
        space, _, name = ref.rpartition(".")
        if space == "torch" and name in DIVISORS:
            reason = f"torch.{name} is no public function; torch.nn.functional.{name} says what it averages over"
            ip.sites.report("DST110", node, f"The divisor of this loss can't be told: {reason}.")
            return Value(batch=Batch(Dep.UNKNOWN, reason=reason))
        return tensors.apply(ip, name, arguments.positional, arguments.keywords, node, frame)
    return unknown(ip, arguments, node, frame, ref)


def _is_torch_function(ref: str) -> bool:
    if ref.startswith(TORCH_SPACES):
        return True
    space, _, name = ref.rpartition(".")
    if ref.startswith("torch.nn.utils.rnn."):
        return True
    return space == "torch" and name[:1].islower() and name not in ("load", "save", "device", "no_grad", "manual_seed")


# Position of the size among the arguments of NumPy's random functions.
_NUMPY_SIZES = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0, "standard_normal": 0, "choice": 1,
                "uniform": 2, "normal": 2, "randint": 2, "integers": 2, "binomial": 2, "beta": 2}  # fmt: skip
# What makes a stream of random numbers, and the name under which its methods are known.
_GENERATORS = {
    "numpy.random.default_rng": "numpy.random.<generator>",
    "numpy.random.RandomState": "numpy.random.<generator>",
    "numpy.random.Generator": "numpy.random.<generator>",
    "random.Random": "random.<generator>",
}


def _draws_an_array(ref: str, arguments: Arguments) -> bool:
    """Whether a NumPy random function is asked for an array: a batch, if it is drawn in each iteration."""
    position = _NUMPY_SIZES.get(ref.rsplit(".", 1)[-1])
    return position is not None and ("size" in arguments.keywords or len(arguments.positional) > position)


def _is_tensor_type(ref: str) -> bool:
    """`torch.FloatTensor`, `torch.cuda.LongTensor`, `torch.Tensor`."""
    space, _, name = ref.rpartition(".")
    return space in ("torch", "torch.cuda") and name.endswith("Tensor")


def _pass_through(ip: Interpreter, ref: str, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    """Wrappers that keep what they are given; a deep copy of a model is another model, owned by no optimizer."""
    value = arguments.get(0, "iterable")
    if value.rows and not value.is_sample and ref.endswith("default_collate"):
        return collating.filled(ip, value, node)
    if not arguments.positional and arguments.keywords:
        value = next(iter(arguments.keywords.values()))[1]
    if ref.endswith(".Parameter") and value.dep <= Dep.GLOBAL:
        return replace(value, is_param=True, loose=not frame.forward, const=EMPTY.const)
    if ref in DATA_PARALLEL:
        return replace(value, wrapped=True)
    return making.deep_copy(ip, value, node, frame) if ref == "copy.deepcopy" else value


def _over_parameters(ip: Interpreter, ref: str, arguments: Arguments, frame: Frame) -> None:
    """`vector_to_parameters` changes the parameters that it is given, other functions of torch read them."""
    for operand, value in arguments.all:
        element = value.element
        if element is not None and element.is_param and not frame.forward:
            if ref.endswith(".vector_to_parameters"):
                changes.note(ip, operand, element, frame)
            else:
                combining.full(ip, operand, element)


def _checkpoint(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame) -> Value:
    from . import calls

    function = arguments.get(0, "function")
    given: dict[int | str, Value] = {}
    results = []
    for ref in order.functions(ip, function.defs):
        given = {i + ref.shift: v for i, (_, v) in enumerate(arguments.positional[1:])}
        results.append(calls.enter(ip, ref, given, ip.closure(ref.node), node, frame))
    if results:
        return join_all(results)
    return combining.elementwise(ip, arguments.positional[1:], node, frame)


def _in_forward(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame, ref: str) -> Value:
    """Foreign code inside a forward, where nothing can be gathered: taken to work sample by sample, as layers do."""
    space, _, name = ref.rpartition(".")
    if space == "numpy" and tensors.is_aggregate(name):
        keywords = {"dim" if key == "axis" else key: held for key, held in arguments.keywords.items()}
        return tensors.apply(ip, name, arguments.positional, keywords, node, frame)
    if ref and not ref.startswith(("builtins.", "torch.")):
        ip.sites.report("DST120", node)
    value = combining.elementwise(ip, [o for o in arguments.all if o[1].is_sample], node, frame)
    return replace(value, opaque=True, batch=replace(value.batch, ndim=None)) if value.is_sample else value


def unknown(ip: Interpreter, arguments: Arguments, node: ast.Call, frame: Frame, ref: str = "") -> Value:
    """Foreign code: what it is given is made global first, so that what it gives is global."""
    made = foreign.optimizer(ip, ref, arguments, node, frame)
    if made is not None:
        return made
    if frame.forward and any(v.is_sample for _, v in arguments.all):
        return _in_forward(ip, arguments, node, frame, ref)
    if frame.forward and ref.startswith("numpy.") and creation.is_creation(ref[6:]):
        return tensors.apply(ip, ref[6:], arguments.positional, arguments.keywords, node, frame)
    taint = union(v.params for _, v in arguments.all)
    shaped = any(
        creation.counts_rows(ip, operand) or v.origin is not None or v.batch.exact or v.rows
        for operand, v in arguments.all
    )
    for operand, value in arguments.all:
        if value.dep > Dep.GLOBAL or is_local(value):
            sinks.as_global(ip, operand, value, frame)
    if ref and (ref.rsplit(".", 1)[-1][:1].isupper() or taint):
        cell = ip.allocate(node, frame, "object", ref=ref)
        for name, (_, value) in arguments.keywords.items() if ref in NAMESPACES else ():
            ip.heap.store(cell, name, value)
        return Value(batch=GLOBAL, objs=frozenset({cell}), params=taint)
    data = any(v.batch.data for _, v in arguments.all)
    wrapped = arguments.positional[0][1] if arguments.positional else EMPTY
    if wrapped.has(Role.LOADER):
        return wrapped
    if node in ip.made.foreign_models:
        return making.made_by(ip, ref, node, frame, Role.MODEL)
    weak = any(v.weak for _, v in arguments.all)
    origin = node if shaped and frame.loops else None
    maker = node if ref else None
    return Value(batch=Batch(Dep.GLOBAL, data=data), params=taint, origin=origin, weak=weak, foreign=maker)


__all__ = ["attributes", "call", "class_roles", "initialise_base", "unknown"]
