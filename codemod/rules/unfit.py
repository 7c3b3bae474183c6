"""Models and optimizers that a sharded backend can't take, refused before the run would.

SparseAdam, Adafactor and Muon look at a whole parameter at a time, while each process steps a part of it; so may any
optimizer of the program or of another library that does not say that it is element-wise. DeepSpeed wants fp32 weights,
one optimizer for a model, and all of its parameters when it is prepared. What `torch.jit` compiled has no place for the
hooks that gather parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from ..facts.places import passed
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._order import exclusive
from ._source import LOOPS, SHARDED, ancestors, calls, contains, function_of, has_role, method_calls, setting

if TYPE_CHECKING:
    from ..facts.model import Facts, OptimizerFact
    from ..options import Options

ELEMENTWISE = ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD")
KNOWN = (*ELEMENTWISE, "LBFGS", "Optimizer", "<dynamic>")  # LBFGS has a finding of its own
TYPES = ("torch.float64", "torch.double", "torch.float16", "torch.half", "torch.bfloat16")
SCRIPTS = ("torch.jit.script", "torch.jit.trace")


@rule("unfit")
def unfit(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Findings only."""
    backend = setting(facts, options, "backend")
    if backend not in SHARDED:
        return
    for optimizer in facts.optimizers:
        name = optimizer.qualified.rsplit(".", 1)[-1]
        if optimizer.qualified.startswith("torch.optim."):
            if name not in KNOWN:
                message = f"{name} needs whole parameters, and --backend {backend} steps on parts of them"
                yield finding("DST203", optimizer.call, message)
        elif not says_elementwise(facts):
            message = f"{name} may need whole parameters (norms, means), and --backend {backend} steps on parts of them"
            hint = (
                "use --backend ddp; if it updates each element by itself, say so of its class before it is prepared: "
                f"type({optimizer.text or 'optimizer'}).elementwise = True"
            )
            yield finding("DST203", optimizer.call, message, hint)
    for call in calls(facts, *SCRIPTS):
        if call.args and has_role(facts, call.args[0], Role.MODEL) and is_trained(facts, call):
            yield finding("DST903", call, "what torch.jit compiled can't gather its parameters")
    if backend == "deepspeed":
        yield from of_engines(facts)


def says_elementwise(facts: Facts) -> bool:
    """Whether the program says of an optimizer that it treats each element by itself; which, the run will see."""
    nodes = (node for file in facts.program for node in file.nodes)
    stores = (node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store))
    return any("elementwise" in (getattr(node, "id", None), getattr(node, "attr", None)) for node in stores)


def is_trained(facts: Facts, call: ast.Call) -> bool:
    """Whether a model is compiled before its optimizer is built: later it is for export."""
    return any(
        function_of(facts, item.statement) is function_of(facts, call) and call.lineno <= item.call.lineno
        for item in facts.optimizers
    )


def of_engines(facts: Facts) -> Iterator[Outcome]:
    """What DeepSpeed's engines can't take."""
    for call, callee in method_calls(facts, "double", "bfloat16", "half", "to"):
        if has_role(facts, callee.value, Role.MODEL) and is_trained(facts, call) and changes_type(facts, call, callee):
            message = "DeepSpeed wants fp32 parameters, and makes copies of lower precision itself"
            hint = "leave it out and give --precision, or use --backend fsdp"
            yield finding("DST903", call, message, hint)
    for call, callee in method_calls(facts, "add_param_group"):
        if has_role(facts, callee.value, Role.OPTIMIZER) and beside_training(facts, call):
            message = "parameters that come into an optimizer in the course of training are in no engine"
            hint = "give it all parameters when it is built (frozen ones get no update), or use --backend fsdp"
            yield finding("DST203", call, message, hint)
    for first, second in combinations(facts.optimizers, 2):
        if set(first.models) & set(second.models) and are_both(facts, first, second):
            message = "a DeepSpeed engine has one optimizer for a model, built once"
            yield finding("DST203", second.call, message, "make them groups of one, or use --backend fsdp")


def changes_type(facts: Facts, call: ast.Call, callee: ast.Attribute) -> bool:
    """Whether a method call gives a model another type."""
    return callee.attr != "to" or any(facts.names.qualified(item) in TYPES for item in passed(call))


def beside_training(facts: Facts, call: ast.Call) -> bool:
    """Whether a call stands in a loop that trains."""
    backwards = [item for step in facts.steps for item in step.backwards]
    return any(isinstance(item, LOOPS) and contains(item, backwards) for item in ancestors(facts, call))


def are_both(facts: Facts, first: OptimizerFact, second: OptimizerFact) -> bool:
    """Whether two optimizers are built in one run: in one function, and not in two branches."""
    if function_of(facts, first.statement) is not function_of(facts, second.statement):
        return False
    return not exclusive(facts, first.statement, second.statement)
