"""Least upper bounds of abstract values: what is known where either may be, and how deep containers are followed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import reduce

from .batchtypes import Dep, join_batch
from .replacing import replace
from .values import EMPTY, VARIES, Value, is_empty

MAX_NAMES = 6
SEVERAL = "<several>"


def join(a: Value, b: Value) -> Value:
    """Least upper bound of two values."""
    if a is b or is_empty(b):
        return a
    if is_empty(a):
        return b
    if a == b:
        return a
    items = None
    element = _join_optional(a.element, b.element)
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        items = tuple(join(x, y) for x, y in zip(a.items, b.items))
    elif a.items is not None and b.items is None and b.element is None:
        items = a.items
    elif b.items is not None and a.items is None and a.element is None:
        items = b.items
    else:
        for members in (a.items, b.items):
            if members:
                element = reduce(join, members, element or EMPTY)
    return Value(
        batch=join_batch(a.batch, b.batch),
        roles=a.roles | b.roles,
        objs=a.objs | b.objs,
        items=items,
        names=a.names or b.names if items is not None else (),
        element=element,
        ref=_join_ref(a.ref, b.ref),
        defs=a.defs | b.defs,
        classes=a.classes | b.classes,
        const=a.const if a.const == b.const and type(a.const) is type(b.const) else VARIES,
        sources=a.sources | b.sources,
        params=a.params | b.params,
        is_param=a.is_param or b.is_param,
        loose=a.loose or b.loose,
        origin=_origin(a, b),
        also=a.also | b.also | _picked_instead(a, b),
        piece=a.piece or b.piece,
        weak=a.weak or b.weak,
        whole=a.whole or b.whole,
        measured=a.measured or b.measured,
        wrapped=(a.wrapped or not a.objs) and (b.wrapped or not b.objs) and (a.wrapped or b.wrapped),
        part=a.part and b.part,
        arg=a.arg if a.arg is b.arg else None,
        shape_dim=a.shape_dim if a.shape_dim is not None else b.shape_dim,
        arrival=a.arrival or b.arrival,
        size0=a.size0 if a.size0 == b.size0 else None,
        made=a.made or b.made,
        foreign=a.foreign or b.foreign,
        opaque=a.opaque or b.opaque,
        leaf=a.leaf and b.leaf,
        distribution=a.distribution or b.distribution,
        rows=a.rows or b.rows,
        stream=a.stream or b.stream,
        built=a.built | b.built,
        ranks=a.ranks | b.ranks,
        terms=a.terms | b.terms,
        bends=a.bends | b.bends,
    )


def _origin(a: Value, b: Value) -> ast.expr | None:
    """What picked or drew either value; beside a SAMPLE, not what picked a whole batch."""
    if Dep.SAMPLE in (a.dep, b.dep):
        a, b = (v if v.dep is Dep.SAMPLE else EMPTY for v in (a, b))
    return a.origin or b.origin


def _picked_instead(a: Value, b: Value) -> frozenset[ast.expr]:
    """What picked the hand-made batch, or joined the whole one, that a value is where it is not a SAMPLE."""
    if not (a.is_sample or b.is_sample):
        return frozenset()
    sample, other = (a, b) if a.is_sample else (b, a)
    if other.origin is None or other.dep is not Dep.GLOBAL:
        return frozenset()
    fits = not other.batch.whole or (other.batch.dim is not None and other.batch.dim == sample.batch.dim)
    return frozenset({other.origin}) if fits and not other.batch.ragged else frozenset()


def _join_ref(a: str | None, b: str | None) -> str | None:
    """Both names; `torch.FloatTensor` alone where it may be `torch.cuda.FloatTensor` as well."""
    if a is None or b is None or a == b:
        return a or b
    found = set(a.split("|")) | set(b.split("|"))
    if SEVERAL in found or len(found) > MAX_NAMES:
        return SEVERAL
    lasts = {name.rsplit(".", 1)[-1] for name in found}
    if len(lasts) == 1 and all(name.startswith("torch.") for name in found):
        return min(found, key=len)
    return "|".join(sorted(found))


def _join_optional(a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return a if b is None else b
    return join(a, b)


def join_all(values: Iterable[Value]) -> Value:
    """Join of any number of values."""
    return reduce(join, values, EMPTY)


def cut(value: Value, depth: int = 4) -> Value:
    """Bound the nesting of containers, so that fixed points are reached."""
    if value.items is None and value.element is None:
        return value
    if depth == 0:
        inside = list(value.items or ()) + ([value.element] if value.element else [])
        flat = join_all(replace(v, items=None, element=None) for v in inside)
        return join(replace(value, items=None, element=None), flat)
    items = None if value.items is None else tuple(cut(v, depth - 1) for v in value.items)
    element = None if value.element is None else cut(value.element, depth - 1)
    if element is value.element and all(a is b for a, b in zip(items or (), value.items or ())):
        return value
    return replace(value, items=items, element=element)
