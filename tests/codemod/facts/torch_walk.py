"""Calls of everything that torch can do to one tensor, and by numbers: do slices of rows join to the whole?"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS, CUT = 7, 4

# No function of the values: random numbers, memory that nobody wrote, other layouts, storage, quantisation; and
# `index`, which is `x[…]` under another name.
SKIPPED = {
    "alpha_dropout",
    "apply_",
    "bernoulli",
    "bernoulli_",
    "cauchy_",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "empty_like",
    "exponential_",
    "fbgemm_linear_quantize_weight",
    "fbgemm_pack_gemm_matrix_fp16",
    "feature_alpha_dropout",
    "feature_dropout",
    "geometric_",
    "gumbel_softmax",
    "hash_tensor",
    "index",
    "log_normal_",
    "manual_seed",
    "map2_",
    "map_",
    "multinomial",
    "new",
    "new_empty",
    "new_empty_strided",
    "normal_",
    "poisson",
    "rand_like",
    "randint_like",
    "randn_like",
    "random_",
    "resize_",
    "resize_as_",
    "rrelu",
    "rrelu_",
    "save",
    "seed",
    "set_",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "storage",
    "sym_int",
    "to_mkldnn",
    "to_sparse",
    "to_sparse_bsc",
    "to_sparse_bsr",
    "to_sparse_coo",
    "to_sparse_csc",
    "to_sparse_csr",
    "uniform_",
}
METHOD_ARGUMENTS = ["", "0", "1", "-1", "dim=0", "dim=1", "2", "0, 1", "2, 0", "keepdim=True, dim=1", "out", "out.t()"]
FUNCTION_ARGUMENTS = ["", "dim=0", "dim=1", "dim=-1", "out", "out.t()", "1", "2"]
SPACES = {"torch": torch, "F": F, "torch.linalg": torch.linalg, "torch.special": torch.special}


@dataclass(frozen=True)
class Probe:
    """A call of torch on `out`, a matrix of rows.

    Attributes:
        text: the call.
        dims: dimensions along which the results of two slices join to that of the whole; empty if there is none.
        values: results of the two slices and of the whole.
    """

    text: str
    dims: frozenset[int]
    values: tuple[Any, Any, Any]


def probes(space: str) -> Iterator[Probe]:
    """Every call of a method of `Tensor`, or of a function of one namespace, that works and gives tensors."""
    torch.manual_seed(1)
    x = torch.rand(ROWS, 3) * 0.8 + 0.1
    for text in calls(space):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = probe(text, x)
        if found is not None:
            yield found


def calls(space: str) -> Iterator[str]:
    """Source texts of the calls, those that don't work included."""
    if space == "Tensor":
        names = [n for n in dir(Tensor) if not n.startswith("_") and n not in SKIPPED]
        yield from (f"out.{name}({given})" for name in names for given in METHOD_ARGUMENTS)
        return
    for name in dir(SPACES[space]):
        function = getattr(SPACES[space], name)
        if not name.startswith("_") and callable(function) and not inspect.isclass(function) and name not in SKIPPED:
            yield from (f"{space}.{name}(out{', ' * bool(given)}{given})" for given in FUNCTION_ARGUMENTS)


def probe(text: str, x: Tensor) -> Probe | None:
    """A call on the whole and on two slices, `None` if it fails or gives no tensor."""
    function: Callable[[Tensor], Any] = eval(f"lambda out: {text}", {"torch": torch, "F": F})
    try:
        results = tuple(function(part.clone()) for part in (x[:CUT], x[CUT:], x))
    except Exception:
        return None
    held = [list(tensors(result)) for result in results]
    if not held[2]:
        return None
    return Probe(text, joining(*held), results)  # type: ignore[arg-type]


def tensors(value: Any) -> Iterator[Tensor]:
    """Tensors of a result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)


def joining(first: list[Tensor], second: list[Tensor], whole: list[Tensor]) -> frozenset[int]:
    """Dimensions along which all tensors of two slices join to those of the whole."""
    if not len(first) == len(second) == len(whole):
        return frozenset()
    sets = [{d for d in range(w.dim()) if _join(a, b, w, d)} for a, b, w in zip(first, second, whole)]
    return frozenset(set.intersection(*sets))


def _join(a: Tensor, b: Tensor, whole: Tensor, dim: int) -> bool:
    try:
        joined = torch.cat([a, b], dim)
        wide = torch.complex128
        return joined.shape == whole.shape and torch.allclose(
            joined.to(wide), whole.to(wide), atol=1e-5, equal_nan=True
        )
    except (RuntimeError, IndexError):
        return False
