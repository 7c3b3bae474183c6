"""What all processes must call together; no check by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from ..facts.collectives import SHARDED_IN_PLACE, SPACE, WRAPPERS
from ..facts.values import Role, union
from ..rules._source import FUNCTIONS, ancestors, calls, keyword_value, position
from ._buffers import sent

if TYPE_CHECKING:
    from ..facts.model import Facts

TOGETHER = frozenset(
    ["all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce",
     "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list",
     "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
     "scatter_object_list", "destroy_process_group", "new_group", "checkpoint.save", "checkpoint.load",
     "checkpoint.async_save", "checkpoint.state_dict_saver.save", "checkpoint.state_dict_loader.load",
     *(f"checkpoint.state_dict.{verb}_{what}" for verb in ("get", "set")
       for what in ("state_dict", "model_state_dict", "optimizer_state_dict"))]
)  # fmt: skip
OF_RUNTIME = frozenset(
    ["any", "averaged", "backward", "barrier", "clip_grad_norm_", "clone", "full", "gather", "load", "load_state_dict",
     "main_first", "max", "mean", "min", "on_main", "prepare", "save", "state_dict", "step", "stopping", "sum"]
)  # fmt: skip
WRAPPING = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
FULLY_SHARDED = (
    *WRAPPING,
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)
OF_WRAPPING = frozenset(
    ["full_optim_state_dict", "optim_state_dict", "optim_state_dict_to_load", "rekey_optim_state_dict",
     "scatter_full_optim_state_dict", "shard_full_optim_state_dict", "sharded_optim_state_dict",
     "summon_full_params"]
)  # fmt: skip


class Collectives:
    """The calls of a program that all processes must make, and its functions that make some."""

    def __init__(self, facts: Facts) -> None:
        self.sharded = any(name in file.calls for file in facts.program for name in FULLY_SHARDED)
        names = {name for file in facts.program for name in file.calls}
        self.apart = any(name.startswith("torch.distributed.rpc.") for name in names)  # each process has its own part
        self.shares = self.sharded or bool(names & {*WRAPPERS, *SHARDED_IN_PLACE})
        self._buffered = facts.worked_out(sent)
        given = [(file, call.args[:1]) for file in facts.program for call in calls(file, *FULLY_SHARDED)]
        self._cut = union(file.value(item).objs for file, items in given for item in items)
        self._inside: dict[ast.AST, str] = {}
        self._direct: dict[ast.AST, str] = {}
        backwards = {id(call) for file in facts.program for step in file.steps for call in step.backwards}
        for file in facts.program:
            forwards = {item.call: item.method for item in file.forwards}
            for node in file.nodes:
                name = self._name(file, node, backwards, forwards) if isinstance(node, ast.Call) else ""
                if name:
                    self._direct[node] = name
                    function = file.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
                    if function is not None:
                        self._inside.setdefault(function, name)
        self._spread(facts)

    def _spread(self, facts: Facts) -> None:
        """Functions that make collective calls, by what they call."""
        calls = [
            (function, [ref.node for ref in file.value(node.func).defs])
            for file in facts.program
            for node in file.nodes
            if isinstance(node, ast.Call) and (function := file.enclosing(node, ast.FunctionDef)) is not None
        ]
        changed = True
        while changed:
            changed = False
            for function, called in calls:
                name = next((self._inside[item] for item in called if item in self._inside), "")
                if name and function not in self._inside:
                    self._inside[function] = name
                    changed = True

    def _name(self, facts: Facts, call: ast.Call, backwards: set[int], forwards: dict[ast.Call, str | None]) -> str:
        """What a call does together with the other processes, "" if it does nothing so."""
        qualified = facts.names.qualified(call.func) or ""
        if qualified.startswith(SPACE) and qualified[len(SPACE) :] in TOGETHER:
            group = keyword_value(call, "group")
            own = group is not None and not (isinstance(group, ast.Constant) and group.value is None)
            return "" if own else qualified[len(SPACE) :]
        if qualified.startswith("distify.runtime."):
            name = qualified[len("distify.runtime.") :]
            return f"runtime.{name}" if name in OF_RUNTIME else ""
        if call in facts.together:
            return facts.together[call]
        if id(call) in backwards and self.shares:
            return "backward"
        space, _, last = qualified.rpartition(".")
        if space in WRAPPING and last in OF_WRAPPING:
            return last
        if call in forwards:
            callee = call.func.value if isinstance(call.func, ast.Attribute) and forwards[call] else call.func
            model = facts.value(callee)
            if self._cut and model.objs and model.objs <= self._cut:
                return "forward of a sharded model"
            if model.wrapped and model.objs <= self._buffered:
                return "forward of a model whose buffers are sent (broadcast_buffers)"
        if not isinstance(call.func, ast.Attribute):
            return ""
        if call.func.attr == "consolidate_state_dict":
            return call.func.attr
        if call.func.attr == "full_tensor" and not call.args and self.sharded:
            return "full_tensor"
        held = facts.value(call.func.value)
        if self.sharded and call.func.attr == "state_dict" and held.has(Role.MODEL) and not held.part:
            return "state_dict of a sharded model"
        return ""

    def of(self, facts: Facts, call: ast.Call) -> str:
        """What a call does together with the other processes, directly or in functions of the program."""
        if call in self._direct:
            return self._direct[call]
        inner = (self._inside[ref.node] for ref in facts.value(call.func).defs if ref.node in self._inside)
        return next(inner, "")

    def is_direct(self, call: ast.Call) -> bool:
        """Whether a call is a collective one by itself."""
        return call in self._direct

    def twins(self, facts: Facts, call: ast.Call) -> list[ast.Call]:
        """The other calls of the same kind in the same function, in source order."""
        home = facts.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        name = self._direct.get(call)
        return sorted(
            (
                node
                for node, other in self._direct.items()
                if node is not call
                and other == name
                and facts.holds(node)
                and facts.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) is home
                and isinstance(node, ast.Call)
            ),
            key=position,
        )


def of_program(facts: Facts) -> Collectives:
    """The collectives of the program of a file."""
    return facts.worked_out(Collectives)


def takes_part(facts: Facts, node: ast.AST) -> bool:
    """Whether a node is something that all processes must do."""
    return isinstance(node, ast.Call) and bool(of_program(facts).of(facts, node))


def around(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    """What is around a node in its function."""
    return takewhile(lambda item: not isinstance(item, FUNCTIONS), ancestors(facts, node))
