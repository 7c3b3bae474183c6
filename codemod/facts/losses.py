"""What a call of a loss reduces to, and by what its mean divides: the table of losses applied to the source."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..dataclass import dataclass
from . import partial
from .losstable import CLASSES, DIVISORS, FUNCTIONS
from .places import last_name
from .torchnames import words
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

UNPACKED = "its arguments are unpacked from a sequence or a mapping"


@dataclass(frozen=True)
class Loss:
    """A loss call.

    Attributes:
        name: functional name.
        reduction: "mean", "sum", "none", or `None` if it can't be told.
        by: source text of the mean's divisor, `None` for rows.
        reason: why it can't be told.
    """

    name: str
    reduction: str | None
    by: str | None = None
    reason: str = ""


def module_loss(ref: str | None) -> str | None:
    """Functional name of a loss class of `torch.nn`, else `None`."""
    if ref is None or not ref.startswith("torch.nn."):
        return None
    return CLASSES.get(ref.rsplit(".", 1)[-1], (None, []))[0]


def function_loss(ref: str | None) -> str | None:
    """Name of a loss function of `torch.nn.functional` (or its alias in `torch`), else `None`."""
    if ref is None or not ref.startswith(("torch.nn.functional.", "torch.")):
        return None
    name = ref.rsplit(".", 1)[-1]
    return name if name in DIVISORS else None


def of_function(ip: Interpreter, name: str, call: ast.Call) -> Loss:
    """What a call of a functional loss asks for."""
    written = partial.as_written(ip, call)
    given = _given(written, FUNCTIONS[name]) if written is not None else None
    if given is None:
        return Loss(name, None, None, UNPACKED)
    return _loss(ip, name, given, given, {key: ip.text(node) for key, node in given.items()})


def of_module(ip: Interpreter, name: str, call: ast.Call, creation: ast.Call) -> Loss:
    """What a call of a loss module asks for, by how the module was made; its parts are named as the call names it."""
    function, parameters = CLASSES.get(last_name(creation.func), (name, []))
    written = partial.as_written(ip, creation)
    known = parameters or next((p for f, p in CLASSES.values() if f == function), [])
    made = _given(written, known) if written is not None else None
    inputs = [p for p in FUNCTIONS[name] if p not in ("weight", "linear_weight")]
    given = _given(call, inputs, may_star=True)
    if made is None or given is None:
        return Loss(name, None, None, UNPACKED)
    holder = ip.text(call.func)
    at_once = call.func is creation and all(map(is_pure, made.values()))  # nn.CrossEntropyLoss(ignore_index=0)(x, y)
    texts = {key: ip.text(node) if at_once else f"{holder}.{key}" for key, node in made.items()}
    return _loss(ip, name, made, given, texts)


def _given(call: ast.Call, parameters: list[str], *, may_star: bool = False) -> dict[str, ast.expr] | None:
    """Arguments of a call by parameter, `None` if some can't be told.

    `may_star`: what `criterion(*pair)` gives are the inputs, which need no names; a function's options could be there.
    """
    if any(k.arg is None for k in call.keywords):
        return None
    starred = next((i for i, item in enumerate(call.args) if isinstance(item, ast.Starred)), None)
    if starred is not None:
        return dict(zip(parameters, call.args[:starred])) if may_star else None
    return {**dict(zip(parameters, call.args)), **{k.arg: k.value for k in call.keywords if k.arg is not None}}


def _loss(
    ip: Interpreter,
    name: str,
    options: Mapping[str, ast.expr],
    inputs: Mapping[str, ast.expr],
    texts: Mapping[str, str],
) -> Loss:
    """A loss with its options (`reduction`, `weight`, …) and their source texts, and its inputs."""
    reduction, reason = _reduction(ip, options)
    if reduction != "mean" or DIVISORS[name] == "rows":
        return Loss(name, reduction, None, reason)
    weight = None if _is_none(ip, options.get("weight")) else texts.get("weight")
    if DIVISORS[name] == "weights":
        return Loss(name, reduction, None if weight is None else f"{weight}.sum()")
    if weight is not None and weight == texts.get("weight") and options is inputs and not is_pure(options["weight"]):
        return Loss(name, None, None, "its weight is not an expression that can be repeated")
    ignore = None if _is_none(ip, options.get("ignore_index")) else texts.get("ignore_index")
    by, reason = _by_targets(ip, inputs.get("target"), weight, ignore)
    return Loss(name, None if reason else reduction, by, reason)


def _reduction(ip: Interpreter, options: Mapping[str, ast.expr]) -> tuple[str | None, str]:
    """The reduction that is asked for, with the reason if it can't be told."""
    if _constant(ip, options.get("reduce")) is False:
        return "none", ""
    if _constant(ip, options.get("size_average")) is False:
        return "sum", ""
    if "reduction" not in options:
        return "mean", ""
    value = _constant(ip, options["reduction"])
    if value in ("mean", "batchmean", "elementwise_mean"):
        return "mean", ""
    if value in ("sum", "none"):
        return str(value), ""
    return None, "its reduction is not a literal"


def _constant(ip: Interpreter, node: ast.expr | None) -> object:
    if node is None or isinstance(node, ast.Constant):
        return None if node is None else node.value
    value = ip.sites.values.get(node)
    return value.const if isinstance(value, Value) else None


def _is_none(ip: Interpreter, node: ast.expr | None) -> bool:
    """Whether an option is not given, or surely `None`."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return True
    return ip.sites.values.get(node, EMPTY).const is None


def _by_targets(
    ip: Interpreter, target: ast.expr | None, weight: str | None, ignore: str | None
) -> tuple[str | None, str]:
    """The counted targets, or their summed class weights."""
    if weight is None and ignore is None and not ip.uses_minus_100:
        return None, ""
    if target is None or not is_pure(target):
        return None, "its target is not an expression that can be repeated"
    text = ip.text(target)
    if not isinstance(target, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        text = f"({text})"
    counted = f"{text} != {ignore if ignore is not None else -100}"
    if weight is None:
        return f"({counted}).sum()", ""
    if ignore is None and not ip.uses_minus_100:
        return f"{weight}[{text}].sum()", ""
    # An ignored index may lie outside the table of weights.
    return f"{weight}[{text}[{counted}]].sum()", ""


_REPEATABLE = words(
    """
    view reshape long float int double half bool byte to cpu cuda detach clone flatten contiguous squeeze unsqueeze
    transpose permute t size type argmax masked_select tensor as_tensor Tensor FloatTensor LongTensor
    """
)


def is_pure(node: ast.expr) -> bool:
    """Whether an expression can be written twice: names, attributes, constants, indexing, reshaping."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return is_pure(node.value)
    if isinstance(node, ast.Slice):
        return all(part is None or is_pure(part) for part in (node.lower, node.upper, node.step))
    if isinstance(node, ast.Subscript):
        return is_pure(node.value) and is_pure(node.slice)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(is_pure(item) for item in node.elts)
    if isinstance(node, ast.BinOp):
        return is_pure(node.left) and is_pure(node.right)
    if isinstance(node, (ast.UnaryOp, ast.Starred)):
        return is_pure(node.operand if isinstance(node, ast.UnaryOp) else node.value)
    if isinstance(node, ast.Compare):
        return is_pure(node.left) and all(is_pure(item) for item in node.comparators)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inputs = [*node.args, *[k.value for k in node.keywords]]
        return node.func.attr in _REPEATABLE and is_pure(node.func.value) and all(is_pure(a) for a in inputs)
    return False
