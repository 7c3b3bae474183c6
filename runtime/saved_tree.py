"""Nested states as JSON and tensors: what is written holds no code, so that reading it runs none."""

from __future__ import annotations

import base64
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .backends.pieces import Piece
from .state import DistifyError

PLAIN = (type(None), bool, int, float, str)
CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
FACTORIES = (None, bool, int, float, str, list, dict, set, tuple)  # of a defaultdict
Tensors = dict[str, Any]  # whole tensors and pieces, by key


class Unstorable(DistifyError):
    """A value can't be stored without pickling it."""


def encode(value: Any, key: str, tensors: Tensors, code: bool = False) -> Any:
    """A nested structure as JSON; its tensors go into `tensors`, under keys that begin with `key`.

    Args:
        value: numbers, strings, bytes, tensors, NumPy arrays, and containers of them.
        key: place of the value, for messages and keys.
        tensors: is filled.
        code: leave functions and classes out; what loads the state has them itself.

    Raises:
        Unstorable: it holds something else.
    """
    try:
        return _encode(value, key, tensors, code)
    except RecursionError:
        pass  # what is said instead needs the stack
    raise Unstorable(f"{key} holds itself, or is nested too deeply. Pass what it holds, as a flat list or dict.")


def _encode(value: Any, key: str, tensors: Tensors, code: bool) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, (Tensor, Piece)):
        return {"tensor": _enter(value, key, tensors)}
    if kind is list:
        return [_encode(item, f"{key}.{k}", tensors, code) for k, item in enumerate(value)]
    if kind in (tuple, set, frozenset, torch.Size):
        return {kind.__name__: [_encode(item, f"{key}.{k}", tensors, code) for k, item in enumerate(value)]}
    if kind in (dict, OrderedDict):
        return _encode_mapping(value, key, tensors, code)
    if kind is defaultdict and (code or value.default_factory in FACTORIES):
        node = _encode_mapping(value, key, tensors, code)
        return node if code else {"default": [getattr(value.default_factory, "__name__", None), node]}
    if kind in (bytes, bytearray):
        return {kind.__name__: base64.b64encode(value).decode()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind in (torch.dtype, torch.device):
        return {kind.__name__: str(value).removeprefix("torch.")}
    if code and isinstance(value, CODE):
        return {"code": getattr(value, "__qualname__", "")}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufc":
        if isinstance(value, numpy.generic):
            return {"number": [value.dtype.str, base64.b64encode(value.tobytes()).decode()]}
        data = torch.empty(value.nbytes, dtype=torch.uint8)
        data.numpy()[:] = numpy.frombuffer(value.tobytes(), dtype=numpy.uint8)
        return {"array": [value.dtype.str, list(value.shape), _enter(data, key, tensors)]}
    raise Unstorable(
        f"{key} is a {kind.__module__}.{kind.__qualname__}, which can't be stored without pickled code. Pass "
        "plain values (numbers, strings, tensors, lists, dicts of them), or an object that has state_dict and "
        "load_state_dict."
    )


def _enter(value: Any, key: str, tensors: Tensors) -> str:
    if isinstance(value, Tensor) and (value.layout != torch.strided or value.is_quantized or value.is_meta):
        raise Unstorable(
            f"{key} is a {'meta' if value.is_meta else 'sparse or quantized'} tensor, which sharded checkpoints can't "
            "hold. Make it dense, or write it with runtime.save()."
        )
    while key in tensors:  # {1: a, "1": b}, or a value by a name that the run uses itself
        key += "'"
    tensors[key] = value.detach() if isinstance(value, Tensor) else value
    return key


def _encode_mapping(value: Mapping[Any, Any], key: str, tensors: Tensors, code: bool) -> Any:
    name = "ordered" if isinstance(value, OrderedDict) else "dict"
    items = [[_encode(k, key, tensors, False), _encode(item, f"{key}.{k}", tensors, code)] for k, item in value.items()]
    if all(type(k) is str for k in value):
        return {name: dict(items)}
    return {f"{name} items": items}


def decode(node: Any, tensor: Callable[[str], Any], now: Any = None) -> Any:
    """What `encode` was given.

    Args:
        node: what it returned.
        tensor: the tensor of a key; it may be filled later.
        now: what stands in that place at the moment; code is taken from there.

    Raises:
        ValueError: `encode` did not make this.
    """
    if isinstance(node, PLAIN):
        return node
    if isinstance(node, list):
        return [decode(item, tensor, _at(now, k)) for k, item in enumerate(node)]
    if not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"no value is written as {str(node)[:40]!r}")
    ((tag, held),) = node.items()
    if tag == "tensor":
        return tensor(held)
    if tag == "code":
        return now
    if tag in ("dict", "ordered", "dict items", "ordered items"):
        items = held.items() if tag in ("dict", "ordered") else held
        pairs = [(k if isinstance(k, str) else decode(k, tensor), item) for k, item in items]
        made: dict[Any, Any] = OrderedDict() if tag.startswith("ordered") else {}
        made.update({k: decode(item, tensor, _at(now, k)) for k, item in pairs})
        return made
    if tag == "default":
        made = defaultdict(next(one for one in FACTORIES if getattr(one, "__name__", None) == held[0]))
        made.update(decode(held[1], tensor, now))
        return made
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](decode(item, tensor, _at(now, k)) for k, item in enumerate(held))
    if tag == "array":
        kind, shape, key = held
        return tensor(key).numpy().view(kind).reshape(shape)  # shares memory with what is read later
    return _scalar(tag, held)


_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "Size": lambda items: torch.Size(list(items)),
}


def _scalar(tag: str, held: Any) -> Any:
    if tag in ("bytes", "bytearray"):
        return base64.b64decode(held) if tag == "bytes" else bytearray(base64.b64decode(held))
    if tag == "number":
        import numpy

        return numpy.frombuffer(base64.b64decode(held[1]), dtype=numpy.dtype(held[0]))[0]
    if tag == "complex":
        return complex(*held)
    if tag == "device":
        return torch.device(held)
    found = getattr(torch, str(held), None) if tag == "dtype" else None
    if isinstance(found, torch.dtype):
        return found
    raise ValueError(f"no value is written as {tag!r}")


def _at(value: Any, key: Any) -> Any:
    """What a structure holds at a key, `None` if nothing."""
    try:
        return None if isinstance(value, (str, Tensor)) else value[key]
    except (KeyError, IndexError, TypeError):
        return None
