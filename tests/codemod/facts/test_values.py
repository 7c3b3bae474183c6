"""Laws of the lattice, without which the passes would not end: joins are idempotent, commutative, associative."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distify.codemod.facts.batchtypes import (
    BOTTOM,
    COUNTED,
    EXACT_ROWS,
    GLOBAL,
    REDUCED,
    ROWS,
    SAMPLE,
    Batch,
    Dep,
    join_batch,
    whole,
)
from distify.codemod.facts.heap import Heap
from distify.codemod.facts.joins import SEVERAL, cut, join, join_all
from distify.codemod.facts.local import deep_sources, has_sample, is_local
from distify.codemod.facts.values import EMPTY, HOST, NOTHING, VARIES, Role, Value, tensor

NODES = [ast.Name(id=name, ctx=ast.Load()) for name in "abc"]

batches = st.sampled_from(
    [
        BOTTOM,
        GLOBAL,
        REDUCED,
        ROWS,
        EXACT_ROWS,
        COUNTED,
        SAMPLE,
        Batch(Dep.SAMPLE, dim=1),
        Batch(Dep.SAMPLE, dim=0, ndim=2, ragged=True),
        Batch(Dep.SAMPLE, dim=0, reason="cat2"),
        whole(0),
        whole(0, 2),
        whole(None),
        Batch(Dep.PENDING, kind="mean"),
        Batch(Dep.PENDING, kind="sum"),
        Batch(Dep.PENDING, kind="mean", by="n"),
        Batch(Dep.UNKNOWN, reason="why"),
    ]
)
plain = st.builds(
    Value,
    batch=batches,
    roles=st.frozensets(st.sampled_from(list(Role)), max_size=2),
    objs=st.frozensets(st.integers(0, 3), max_size=2),
    ref=st.sampled_from([None, "torch.cat", "torch.stack", "builtins.len"]),
    const=st.sampled_from([NOTHING, VARIES, None, 1, "train"]),
    sources=st.frozensets(st.sampled_from(NODES), max_size=2),
    opaque=st.booleans(),
)
values = st.recursive(
    plain,
    lambda inner: (
        st.builds(Value, items=st.lists(inner, min_size=1, max_size=3).map(tuple)) | st.builds(Value, element=inner)
    ),
    max_leaves=5,
)


@given(batches, batches)
def test_batch_types_join_in_any_order(a: Batch, b: Batch) -> None:
    assert join_batch(a, b).dep == join_batch(b, a).dep
    assert join_batch(a, b).dep >= max(a.dep, b.dep)


@given(batches, batches)
def test_joining_again_changes_nothing(a: Batch, b: Batch) -> None:
    joined = join_batch(a, b)
    assert join_batch(joined, joined) == joined
    assert join_batch(joined, b) == joined
    assert join_batch(joined, a).dep == joined.dep


@given(batches, batches, batches)
def test_grouping_does_not_matter(a: Batch, b: Batch, c: Batch) -> None:
    assert join_batch(join_batch(a, b), c).dep == join_batch(a, join_batch(b, c)).dep


@given(values)
def test_a_value_joined_with_itself_or_nothing_is_itself(a: Value) -> None:
    assert join(a, a) == a
    assert join(a, EMPTY) == a
    assert join(EMPTY, a) == a


@settings(deadline=None)
@given(values, values)
def test_values_are_absorbed(a: Value, b: Value) -> None:
    """What is known grows: joining the same again changes nothing, whatever came in between."""
    once = cut(join(a, b))
    twice = cut(join(once, b))
    thrice = cut(join(twice, b))
    assert twice == thrice
    assert twice.batch.dep == once.batch.dep
    assert twice.roles == once.roles
    assert twice.objs == once.objs


@settings(deadline=None)
@given(st.lists(values, max_size=6))
def test_a_heap_cell_settles(stored: list[Value]) -> None:
    """A fixed point: stored again and again, the same values stop changing a cell."""
    heap = Heap()
    cell = heap.allocate(NODES[0])
    for _ in range(6):
        heap.changed = False
        for value in stored:
            heap.add(cell, value)
            heap.store(cell, "name", value)
    assert not heap.changed


@settings(deadline=None)
@given(values)
def test_nesting_is_bounded(a: Value) -> None:
    def depth(value: Value) -> int:
        inner = [*(value.items or ()), *([value.element] if value.element is not None else [])]
        return 1 + max(map(depth, inner), default=0)

    deep = a
    for _ in range(8):
        deep = Value(items=(deep,), element=deep)
    assert depth(cut(deep)) <= 6
    assert cut(cut(deep)) == cut(deep)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (GLOBAL, SAMPLE, Dep.SAMPLE),
        (ROWS, GLOBAL, Dep.ROWS),
        (BOTTOM, GLOBAL, Dep.GLOBAL),
        (REDUCED, GLOBAL, Dep.GLOBAL),
        (SAMPLE, Batch(Dep.UNKNOWN), Dep.UNKNOWN),
        (Batch(Dep.PENDING, kind="mean"), Batch(Dep.PENDING, kind="sum"), Dep.UNKNOWN),
        (Batch(Dep.PENDING, kind="mean"), Batch(Dep.PENDING, kind="mean"), Dep.PENDING),
    ],
)
def test_joins_of_kinds(a: Batch, b: Batch, expected: Dep) -> None:
    assert join_batch(a, b).dep is expected


def test_a_count_that_is_another_number_elsewhere_is_mixed() -> None:
    assert join_batch(EXACT_ROWS, GLOBAL) == Batch(Dep.ROWS, mixed=True)
    assert not join_batch(EXACT_ROWS, EXACT_ROWS).mixed


def test_dimensions_that_differ_are_forgotten() -> None:
    assert join_batch(SAMPLE, Batch(Dep.SAMPLE, dim=1)) == Batch(Dep.SAMPLE, dim=None)
    assert join_batch(whole(0), whole(1)) == whole(None)
    assert join_batch(whole(0), GLOBAL) == whole(0)


def test_constants_that_differ_are_forgotten_for_good() -> None:
    both = join(Value(const="train"), Value(const="val"))
    assert both.const is VARIES
    assert join(both, Value(const="train")).const is VARIES


def test_several_functions_keep_their_names() -> None:
    both = join(Value(ref="torch.relu"), Value(ref="torch.tanh"))
    assert both.ref == "torch.relu|torch.tanh"
    assert join(both, Value(ref="torch.relu")) == both
    assert join(Value(ref="torch.FloatTensor"), Value(ref="torch.cuda.FloatTensor")).ref == "torch.FloatTensor"
    assert join_all(Value(ref=f"m.f{i}") for i in range(9)).ref == SEVERAL


def test_tuples_join_member_by_member() -> None:
    a, b = Value(items=(HOST, Value(batch=SAMPLE))), Value(items=(HOST, HOST))
    assert join(a, b).items == (HOST, Value(batch=SAMPLE))
    longer = join(a, Value(items=(HOST,)))
    assert longer.items is None
    assert longer.element is not None
    assert longer.element.is_sample


def test_a_fresh_tensor_is_built_where_all_its_rows_are() -> None:
    made = Value(batch=SAMPLE, built=frozenset({NODES[0]}))
    assert tensor(SAMPLE, made, HOST).built == {NODES[0]}
    assert tensor(SAMPLE, made, Value(batch=SAMPLE)).built == frozenset()
    assert tensor(REDUCED, made).built == frozenset()


def test_what_is_inside_counts() -> None:
    inner = Value(batch=SAMPLE, sources=frozenset({NODES[1]}))
    for holder in (Value(items=(HOST, inner)), Value(element=inner), Value(element=Value(items=(inner,)))):
        assert has_sample(holder)
        assert is_local(holder)
        assert deep_sources(holder) == {NODES[1]}
    assert not has_sample(Value(items=(HOST,)))
    assert is_local(Value(items=(Value(batch=ROWS),)))
    assert not is_local(HOST)
