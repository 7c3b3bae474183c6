"""Whether a value depends on this rank's slice, and on which batches."""

from __future__ import annotations

import ast

from .values import Dep, Value, union

_LOCAL = (Dep.ROWS, Dep.UNKNOWN, Dep.COUPLED)


def is_local(value: Value) -> bool:
    """Whether a value depends on this rank's slice."""
    local = value.dep > Dep.GLOBAL or (value.shape_dim is not None and value.shape_dim >= 0)
    unknown = value.element is not None and value.element.dep in (Dep.UNKNOWN, Dep.COUPLED)
    return local or unknown or has_sample(value) or any(v.dep in _LOCAL for v in value.items or ())


def has_sample(value: Value) -> bool:
    """Whether a value is, or holds, one row per sample."""
    if value.is_sample:
        return True
    if value.items is not None and any(has_sample(v) for v in value.items):
        return True
    return value.element is not None and has_sample(value.element)


def deep_sources(value: Value) -> frozenset[ast.AST]:
    """Sources of a value and of what it holds."""
    inner = [deep_sources(v) for v in value.items or ()]
    if value.element is not None:
        inner.append(deep_sources(value.element))
    return union([value.sources, *inner])


def is_leaf(value: Value) -> bool:
    """Whether a value is a batch as it was fetched, or the parts of one."""
    if value.items:
        return all(is_leaf(v) for v in value.items)
    return value.leaf


def holds_whole(value: Value) -> bool:
    """Whether a value is, or holds, a tensor with the rows of the whole batch."""
    if value.batch.whole and not value.batch.exact:
        return True
    inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    return any(holds_whole(v) for v in inner)
