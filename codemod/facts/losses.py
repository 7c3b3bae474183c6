"""The table of divisors: by what the mean of every loss of `torch.nn` and `torch.nn.functional` divides.

Source: the `reduction` paragraph of each function's page in the PyTorch documentation. "rows": the mean runs over all
elements, or over samples, and every sample has the same number of elements. "targets": the mean divides by the counted
targets (`ignore_index`) or by their summed class weights (`weight`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .torchnames import words
from .values import Value

if TYPE_CHECKING:
    from .interpreter import Interpreter

_ROWS = words("""
binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss gaussian_nll_loss
hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
triplet_margin_with_distance_loss
""")

DIVISORS: dict[str, str] = dict.fromkeys(_ROWS, "rows") | {"cross_entropy": "targets", "nll_loss": "targets"}

_MODULES = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CTCLoss": "ctc_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss",
    "CrossEntropyLoss": "cross_entropy",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss",
    "HuberLoss": "huber_loss",
    "KLDivLoss": "kl_div",
    "L1Loss": "l1_loss",
    "MSELoss": "mse_loss",
    "MarginRankingLoss": "margin_ranking_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "MultiMarginLoss": "multi_margin_loss",
    "NLLLoss": "nll_loss",
    "NLLLoss2d": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "SoftMarginLoss": "soft_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
}

# Positions of `reduction` and `weight`/`ignore_index`: functions; modules take keywords but for `weight`.
_TARGET_POSITION = 1
_WEIGHT_POSITION = {"cross_entropy": 2, "nll_loss": 2}


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
    return _MODULES.get(ref.rsplit(".", 1)[-1])


def function_loss(ref: str | None) -> str | None:
    """Name of a loss function of `torch.nn.functional` (or its alias in `torch`), else `None`."""
    if ref is None or not ref.startswith(("torch.nn.functional.", "torch.")):
        return None
    name = ref.rsplit(".", 1)[-1]
    return name if name in DIVISORS else None


def reduction_of(ip: Interpreter, call: ast.Call) -> tuple[str | None, str]:
    """The `reduction` that a call (of the function or of the class) asks for, with the reason if it can't be told."""
    keywords = {k.arg: k.value for k in call.keywords}
    if None in keywords:
        return None, "its keyword arguments are unpacked from a mapping"
    legacy = {name: _constant(ip, keywords[name]) for name in ("size_average", "reduce") if name in keywords}
    if legacy.get("reduce") is False:
        return "none", ""
    if legacy.get("size_average") is False:
        return "sum", ""
    if "reduction" not in keywords:
        return "mean", ""
    value = _constant(ip, keywords["reduction"])
    if value in ("mean", "batchmean", "elementwise_mean"):
        return "mean", ""
    if value in ("sum", "none"):
        return str(value), ""
    return None, "its reduction is not a literal"


def _constant(ip: Interpreter, node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    value = ip.sites.values.get(node)
    return value.const if isinstance(value, Value) else None


def function_divisor(ip: Interpreter, name: str, call: ast.Call) -> tuple[str | None, str]:
    """Source text of the divisor of a functional loss's mean (`None`: rows)."""
    keywords = {k.arg: k.value for k in call.keywords}
    weight = keywords.get("weight")
    position = _WEIGHT_POSITION.get(name)
    if weight is None and position is not None and len(call.args) > position:
        weight = call.args[position]
    ignore = keywords.get("ignore_index")
    return _divisor(
        ip,
        call,
        keywords,
        ip.text(weight) if weight is not None else None,
        ip.text(ignore) if ignore is not None else None,
    )


def module_divisor(ip: Interpreter, call: ast.Call, creation: ast.Call) -> tuple[str | None, str]:
    """Source text of the divisor of a loss module's mean; the module is named as the call names it."""
    keywords = {k.arg: k.value for k in creation.keywords}
    holder = ip.text(call.func)
    weighted = bool(creation.args) or not _is_none(keywords.get("weight"))
    ignored = "ignore_index" in keywords
    return _divisor(
        ip,
        call,
        {k.arg: k.value for k in call.keywords},
        f"{holder}.weight" if weighted else None,
        f"{holder}.ignore_index" if ignored else None,
    )


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _divisor(
    ip: Interpreter, call: ast.Call, keywords: dict[str | None, ast.expr], weight: str | None, ignore: str | None
) -> tuple[str | None, str]:
    if weight == "None":
        weight = None
    if weight is None and ignore is None and not ip.uses_minus_100:
        return None, ""
    target = keywords.get("target")
    if target is None and len(call.args) > _TARGET_POSITION:
        target = call.args[_TARGET_POSITION]
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
    transpose permute t size type argmax
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
