"""Losses over slices: what they give, and where their mean is reduced over the ranks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import combining, creation, losses, reducing, sinks
from .values import NOTHING, REDUCED, Batch, Dep, Value, tensor, whole

if TYPE_CHECKING:
    from .interpreter import Frame, Interpreter

Operand = tuple[ast.expr, Value]


def apply(ip: Interpreter, item: losses.Loss, operands: list[Operand], node: ast.Call, frame: Frame) -> Value:
    """Value of a loss over slices."""
    values = [v for _, v in operands]
    others = [v for v in values if not v.is_sample and v.dep > Dep.ROWS]
    if others:
        return tensor(others[0].batch, *values)
    _split_targets(ip, operands[:2], frame)
    met = _of_sequences(ip, operands, frame) if item.name == "ctc_loss" else combining.meet(ip, operands[:3], frame)
    if met is not None:
        return Value(batch=whole(0) if item.reduction == "none" else REDUCED)
    samples = [v for v in values if v.is_sample]
    value = tensor(
        Batch(Dep.SAMPLE, dim=0, reason=_reason(samples), ragged=any(v.batch.ragged for v in samples)), *values
    )
    if item.reduction is None:
        ip.sites.report("DST110", node, f"The divisor of this loss can't be told: {item.reason}.")
        return tensor(Batch(Dep.UNKNOWN, reason=item.reason))
    for sample in samples:
        creation.settle(ip, sample)
    if item.reduction == "none":
        ndim = samples[-1].batch.ndim if samples else None
        return value.with_batch(Batch(Dep.SAMPLE, dim=0, ndim=ndim, flat=True, ragged=value.batch.ragged))
    by = item.by
    if item.reduction == "mean" and by is None and reducing.is_uneven(value):
        by = reducing.row_divisor(ip, [n for n, _ in reversed(operands[:2])])
        if by is None:
            reason = "it runs over rows whose number can't be written down"
            ip.sites.report("DST110", node, f"The divisor of this loss can't be told: {reason}.")
            return tensor(Batch(Dep.UNKNOWN, reason=reason))
    return sinks.reduce_here(ip, node, value, frame, item.reduction, by)


def _of_sequences(ip: Interpreter, operands: list[Operand], frame: Frame) -> Value | None:
    """What CTC is given beside the outputs: lengths, and targets, are cut along their first dimension.

    Targets of a whole batch that lie end to end have no row per sample: all is made whole then.
    """
    samples = [(node, value) for node, value in operands if value.is_sample]
    others = [(node, value) for node, value in operands if value.dep is Dep.GLOBAL and not value.batch.exact]
    others = [(node, value) for node, value in others if value.origin is not None or value.batch.whole]
    if any(_lies_end_to_end(value) for _, value in others) and not frame.forward:
        for node, value in samples:
            sinks.gather(ip, node, value, frame)
        return Value(batch=whole())
    for node, value in others:
        combining.cut_to(ip, node, value, 0, [v for _, v in samples], frame)
    return None


def _lies_end_to_end(value: Value) -> bool:
    made = value.origin
    name = getattr(made.func, "attr", getattr(made.func, "id", "")) if isinstance(made, ast.Call) else ""
    return name in ("cat", "concat", "concatenate", "hstack") or (value.batch.whole and value.batch.ragged)


def _split_targets(ip: Interpreter, operands: list[Operand], frame: Frame) -> None:
    """Targets of a batch that is made by hand have its rows, whatever they were made of; a constant goes to all."""
    if frame.forward or not any(v.is_sample and v.sources and v.sources <= set(ip.sites.splits) for _, v in operands):
        return
    for node, value in operands:
        constant = value.made is not None or value.params or value.const is not NOTHING or value.origin is not None
        if value.dep is Dep.GLOBAL and not value.batch.whole and not constant:
            combining.split(ip, node)


def _reason(samples: list[Value]) -> str:
    return next((v.batch.reason for v in samples if v.batch.reason), "")
