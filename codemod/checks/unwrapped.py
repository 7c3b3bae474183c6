"""A model that is trained and never wrapped: each process trains its own (hkproj/pytorch-transformer-distributed#3).

    model = Net().to(device)                    # DistributedDataParallel(Net().to(device))
    optimizer = SGD(model.parameters(), lr=0.1)

What a function that can't be looked into was given may be wrapped there, and a program that sends gradients or weights
itself needs no wrapper: both are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.collectives import SPACE
from ..facts.launchers import WRAPS
from ..facts.places import passed
from ..facts.values import Role, Value, union
from ..findings import Finding, finding
from ..rules._libraries import library_of
from . import Kind, check
from ._weights import sends_weights

if TYPE_CHECKING:
    from ..facts.model import Facts

MESSAGE = "This model is trained and never wrapped: its gradients are not shared, so every process trains its own."
HINT = "DistributedDataParallel(model) before the optimizer is built"
STARTS = ("torch.distributed.init_process_group", "accelerate.Accelerator", ".Fabric", "deepspeed.initialize")
KNOWN = ("Accelerate", "Fabric", "DeepSpeed", "the Trainer of Hugging Face")
PARTS = (
    "torch.distributed.pipelin",
    "torch.distributed.rpc",
    "torch.distributed.tensor",
    "torch.distributed.algorithms",
)
HARMLESS = (
    "torch.",
    "builtins.",
    "copy.",
    "numpy.",
    "math.",
    "random.",
    "torchinfo.",
    "torchsummary.",
    "thop.",
    "timm.",
)


@check("unwrapped", Kind.BY_HAND)
def unwrapped(facts: Facts) -> Iterator[Finding]:
    """Models whose parameters an optimizer owns, and that nothing shares the gradients of."""
    if not facts.models or not facts.worked_out(is_plain):
        return
    shared = facts.worked_out(given_away)
    for model in facts.models:
        for made in model.creations:
            given = (facts.value(item).objs for item in passed(made)) if isinstance(made, ast.Call) else ()
            cells = facts.value(made).objs | union(given)
            if cells and not cells & shared:
                yield finding("DST351", made, MESSAGE, HINT)


def is_plain(facts: Facts) -> bool:
    """Whether a program is distributed by what is known, and leaves the sending of gradients to wrappers."""
    for file in facts.program:
        names = set(file.calls)
        if any(name.startswith(PARTS) or is_unknown(name) for name in names):
            return False
        for node in file.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "grad":
                return False
            if isinstance(node, ast.Call) and sends_weights(file, node):
                return False
    return any(name.endswith(STARTS) for file in facts.program for name in file.calls)


def is_unknown(name: str) -> bool:
    """Whether a call is of a library that may share gradients in ways of its own."""
    library = library_of(name.split(".")[0])
    return library is not None and library.title not in KNOWN and ".fabric." not in name


def given_away(facts: Facts) -> frozenset[int]:
    """The models that are wrapped, or go where one can't look: what may be done there?"""
    found: set[int] = set()
    for file in facts.program:
        for node in file.nodes:
            if not isinstance(node, ast.expr):
                continue
            value = file.value(node)
            if value.wrapped:
                found |= value.objs
            if isinstance(node, ast.Call) and is_dark(file, node):
                found |= union(held(file.value(item)) for item in passed(node))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRAPS:
                found |= union(file.value(item).objs for item in passed(node))
    return frozenset(found)


def held(value: Value) -> frozenset[int]:
    """The models that a value is, or holds."""
    inner = [held(item) for item in (*(value.items or ()), *([value.element] if value.element is not None else []))]
    return union([value.objs if value.has(Role.MODEL) else frozenset[int](), *inner])


def is_dark(facts: Facts, call: ast.Call) -> bool:
    """Whether a call wraps what it is given, or does with it what can't be seen."""
    callee, name = facts.value(call.func), facts.names.qualified(call.func)
    if callee.defs or callee.classes or callee.has(Role.MODEL) or callee.has(Role.CRITERION):
        return False
    if name is None:
        return isinstance(call.func, ast.Name) or bool(facts.value(call.func).ref)
    return name.startswith((SPACE, "torch.nn.parallel.")) or not name.startswith(HARMLESS)


__all__ = ["unwrapped"]
