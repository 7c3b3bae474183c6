"""Facts about a program, file by file: interpretation in two phases, then the records that rules read.

The first phase takes every loader for one whose batches are sharded, and finds out which models are owned by an
optimizer and which batches reach them; the second starts afresh with that knowledge.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from ..findings import finding
from ..fstrings import fstring_spans
from ..program import Module, Program
from . import attributes, bends, by_hand, changes, unsharded
from .entry import Entries
from .interpreter import Interpreter
from .model import Facts, Forward, Full, LoaderFact, ModelFact, OptimizerFact, SchedulerFact, Split
from .names import Names
from .steps import find_steps, position
from .values import EMPTY, Dep, Value

if TYPE_CHECKING:
    from ..findings import Finding
    from .made import MadeOptimizer

MAX_PASSES = 12
RENAMED = ("torch.autograd.grad", "torch.autograd.backward")


def analyse(source: str, path: str) -> Facts:
    """Facts about one file by itself.

    Args:
        source: its decoded text.
        path: as given, for messages.

    Raises:
        SyntaxError: the text is no Python of the running version.
    """
    return analyse_program(Program.single(path, source))[0]


def analyse_program(program: Program) -> list[Facts]:
    """Facts about the files of a program, the script first; folders without a file of their own have none."""
    for module in program.modules:
        fstring_spans(module.source, module.tree)
    trees = [module.tree for module in program.modules]
    parents = {child: parent for tree in trees for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    names = Names(program.modules, parents)
    files = [_bare(module, parents, names) for module in program.modules if module.path]
    for facts in files:
        facts.program = files
    if not any(_may_train(facts) for facts in files):
        return files
    ip = _best(program, parents, names)
    made = ip.made
    training = bool((made.backwards or made.gradients) and (made.optimizers or any(made.by_hand.values())))
    entries = Entries(program, names)
    for facts, module in zip(files, [module for module in program.modules if module.path]):
        facts.value = lambda node: _with_roles(ip, ip.sites.values.get(node, EMPTY))
        facts.is_training = training
        _add_renamed(facts)
        if training and module is program.entry:
            facts.entry_statement = entries.statement()
    (_fill if training else _report_untrained)(files, ip)
    return files


def _add_renamed(facts: Facts) -> None:
    """Calls of torch's gradient functions by a name that the script gave them: `grad = torch.autograd.grad`."""
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.Call) and facts.names.qualified(node.func) is None:
            ref = facts.value(node.func).ref or ""
            if ref in RENAMED:
                facts.calls.setdefault(ref, []).append(node)


def _bare(module: Module, parents: dict[ast.AST, ast.AST], names: Names) -> Facts:
    """A file before its interpretation."""
    calls = _calls(module.tree, names)
    facts = Facts(module.path, module.source, module.tree, parents, names, lambda node: EMPTY, calls)
    _name_runtime(facts, names)
    return facts


def _report_untrained(files: list[Facts], ip: Interpreter) -> None:
    for facts in files:
        facts.findings = _unseen_optimizer(facts, ip)


def _unseen_optimizer(facts: Facts, ip: Interpreter) -> list[Finding]:
    """Backward runs and something steps, but no optimizer is built here: training that can't be converted."""
    backwards = [call for call in ip.made.backwards if facts.holds(call)]
    if not backwards and any(facts.holds(item.call) for item in ip.made.optimizers.values()):
        # An optimizer is built, and what is run backward comes from a library that nothing is known of.
        backwards = [
            node
            for node in ast.walk(facts.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        ]
    updates = by_hand.report(facts, ip)
    steps = [
        node
        for node in ast.walk(facts.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
    ]
    if not backwards or updates or not steps:
        return updates if backwards else []
    message = "What this backward trains is not known: no optimizer is built here."
    hint = "give the script that builds it, whose imports are followed, or build it here from the model's parameters"
    if ip.made.optimizers:
        message = "What this backward trains is not known: its loss comes from code that can't be seen into."
        hint = "compute the loss from the model's output; precision is set by --precision, so leave out apex"
    return [finding("DST202", min(backwards, key=position), message, hint)]


def _with_roles(ip: Interpreter, value: Value) -> Value:
    """A value with the roles that its objects were found to have by their use."""
    return (
        replace(value, roles=value.roles.union(*(ip.heap[cell].roles for cell in value.objs))) if value.objs else value
    )


def _calls(tree: ast.Module, names: Names) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            qualified = names.qualified(node.func)
            if qualified is not None:
                found.setdefault(qualified, []).append(node)
    return found


def _name_runtime(facts: Facts, names: Names) -> None:
    """How the file names the runtime, or will."""
    for node in ast.walk(facts.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "distify" and node.level == 0:
            for alias in node.names:
                if alias.name == "runtime":
                    facts.runtime_name, facts.runtime_imported = alias.asname or alias.name, True
                    return
    facts.runtime_name = "distify_runtime" if names.is_bound("runtime", facts.tree) else "runtime"


def _may_train(facts: Facts) -> bool:
    """A cheap look before the interpretation: something is stepped or runs backward."""
    return "torch.autograd.grad" in facts.calls or any(
        isinstance(node, ast.Attribute) and node.attr in ("backward", "step", "clip_grad_norm_")
        for node in ast.walk(facts.tree)
    )


def _best(program: Program, parents: dict[ast.AST, ast.AST], names: Names) -> Interpreter:
    """Interpret under the first assumption on hand-made batches that nothing in the program contradicts.

    Their samples lie along the first dimension, or along the second; else every process computes whole batches, which
    is exact as well, only no faster.
    """
    refutation = None
    for split_dim in (0, 1):
        ip = _interpret(program, parents, names, split_dim)
        refuted = next((f for f in ip.sites.findings.values() if f.level == "error"), None)
        if refuted is None or not ip.sites.splits:
            return ip
        refutation = refutation or refuted
    ip = _interpret(program, parents, names, None)
    ip.refutation = refutation
    for origin in ip.whole:
        ip.sites.report("DST118", origin)
    return ip


def _interpret(program: Program, parents: dict[ast.AST, ast.AST], names: Names, split_dim: int | None) -> Interpreter:
    first = _first(program, parents, names, split_dim)
    second = Interpreter(program, dict(parents), names, split_dim)
    for cell in first.heap.cells:
        second.heap.allocate(cell.node, cell.kind, context=cell.context, cls=cell.cls, ref=cell.ref, loops=cell.loops)
    for index, cell in enumerate(first.heap.cells):
        second.heap[index].root = cell.root
    second.sites.owned = set(first.sites.owned)
    second.sites.feeds = set(first.sites.feeds)
    second.sites.splits = dict(first.sites.splits)
    second.loop_sources = {loop: sources & first.sites.feeds for loop, sources in first.loop_sources.items()}
    second.made.training_defs = first.made.training_defs
    second.made.training_loops = first.made.training_loops
    second.made.running_defs = first.made.running_defs
    second.made.making_defs = first.made.making_defs
    second.made.step_defs = first.made.step_defs
    second.made.inner_defs = first.made.inner_defs
    second.made.foreign_models = first.made.foreign_models
    second.made.hooked = first.made.hooked
    second.made.batch_functions = first.made.batch_functions
    second.made.filled = first.made.filled
    second.batch_sizes = first.batch_sizes
    second.assume_feeds = False
    _converge(second)
    return second


def _first(program: Program, parents: dict[ast.AST, ast.AST], names: Names, split_dim: int | None) -> Interpreter:
    """The first phase; afresh once foreign calls are known to make models, since batches were gathered for them."""
    known: set[ast.Call] = set()
    while True:
        ip = Interpreter(program, dict(parents), names, split_dim)
        ip.made.foreign_models = set(known)
        _converge(ip)
        if ip.made.foreign_models == known:
            return ip
        known = ip.made.foreign_models


def _converge(ip: Interpreter) -> None:
    """Passes until neither objects nor recorded places change; values are those of the last pass."""
    for _ in range(MAX_PASSES):
        ip.heap.changed = False
        ip.sites.start()
        ip.run()
        by_hand.own(ip)
        if not (ip.heap.changed or ip.sites.changed):
            break
    ip.sites.prune()


def _fill(files: list[Facts], ip: Interpreter) -> None:
    """Write down what the interpretation found, in the file that it stands in, in source order."""
    for facts in files:
        _fill_places(facts, ip)
    for facts in files:
        _fill_steps(facts, ip)
    unsharded.report(files, ip)


def _fill_places(facts: Facts, ip: Interpreter) -> None:
    """The places of one file that need an edit, what is built in it, and its findings."""
    made, sites, holds = ip.made, ip.sites, facts.holds
    facts.reductions = sorted((r for r in sites.reductions.values() if holds(r.node)), key=lambda r: position(r.node))
    facts.arrivals = [a for a in sites.arrivals.values() if holds(a.statement)]
    facts.arrivals.sort(key=lambda a: position(a.statement))
    facts.counts = sorted((c for c in sites.counts.values() if holds(c.node)), key=lambda c: position(c.node))
    facts.gathers = sorted((g for g in sites.gathers.values() if holds(g.node)), key=lambda g: position(g.node))
    facts.draws = sorted((d for d in sites.draws.values() if holds(d.call)), key=lambda d: position(d.call))
    splits = sorted((s for s in sites.splits.values() if holds(s.node)), key=lambda s: position(s.node))
    facts.splits = _together(facts, splits)
    fulls = [f for f in sites.fulls.values() if holds(f.node) and not changes.is_open(ip, f.node, _models_in(ip, f))]
    facts.fulls = sorted(fulls, key=lambda f: position(f.node))
    opened = [item for item in changes.outermost(ip, list(sites.opened.values())) if holds(item.statement)]
    facts.opened = sorted(opened, key=lambda item: position(item.statement))
    facts.sizes = sorted((s for s in sites.sizes.values() if holds(s.node)), key=lambda s: position(s.node))
    facts.pads = sorted((p for p in sites.pads.values() if holds(p.node)), key=lambda p: position(p.node))
    facts.findings = [item for (_, node), item in sites.findings.items() if holds(node)]
    facts.findings += by_hand.report(facts, ip)
    facts.updates = sorted(by_hand.updates(facts, ip), key=lambda u: position(u.statement))
    optimizers = [item for item in made.optimizers.values() if holds(item.statement)]
    facts.optimizers = [_optimizer(item) for item in sorted(optimizers, key=lambda o: position(o.call))]
    facts.models = _models(facts, ip)
    facts.loaders = [
        LoaderFact(call, call in sites.feeds, call in sites.sharded)
        for call in sorted(filter(holds, made.loaders), key=position)
    ]


def _models_in(ip: Interpreter, item: Full) -> frozenset[int]:
    """The models whose parameters an expression gives."""
    return frozenset(attributes.root(ip, cell) for cell in ip.sites.values.get(item.node, EMPTY).params)


def _fill_steps(facts: Facts, ip: Interpreter) -> None:
    """The training steps of one file, with their forwards and schedulers."""
    made = ip.made
    forwards = [
        Forward(call, text, method, False) for call, (text, method) in made.forwards.items() if facts.holds(call)
    ]
    steps = find_steps(made, sorted(forwards, key=lambda f: position(f.call)), facts.parents, facts.tree)
    training = {f.call for step in steps for f in step.forwards}
    facts.forwards = sorted(
        (Forward(f.call, f.model, f.method, f.call in training) for f in forwards), key=lambda f: position(f.call)
    )
    steps = find_steps(made, facts.forwards, facts.parents, facts.tree)
    facts.steps = [replace(step, bends=bends.of_step(ip, step)) for step in steps]
    per_step = {call for step in facts.steps if step.loop is not None for call in step.scheduler_steps}
    schedulers = sorted(filter(facts.holds, made.schedulers), key=position)
    facts.schedulers = [_scheduler(call, ip, per_step, facts) for call in schedulers]


def _together(facts: Facts, splits: list[Split]) -> list[Split]:
    """`x, y = data[i], labels[i]`: members of one tuple are split together, as one batch."""
    nodes = {s.node: s for s in splits}
    found: dict[ast.AST, Split] = {}
    for item in splits:
        parent = facts.parents[item.node]
        if isinstance(parent, ast.Tuple) and all(e in nodes and nodes[e].dim == item.dim for e in parent.elts):
            found.setdefault(parent, Split(parent, item.dim))
        else:
            found.setdefault(item.node, item)
    return list(found.values())


def _optimizer(item: MadeOptimizer) -> OptimizerFact:
    return OptimizerFact(item.call, item.statement, item.text, item.models, item.qualified)


def _models(facts: Facts, ip: Interpreter) -> list[ModelFact]:
    """The models that optimizers own, with the name they have where the optimizer is built."""
    found = []
    for cell in sorted(ip.sites.owned):
        node = ip.heap[cell].node
        texts = [t for o in ip.made.optimizers.values() if cell in o.cells for t in o.models]
        if isinstance(node, ast.Call) and texts and facts.holds(node):
            found.append(ModelFact((node,), texts[0]))
    return found


def _scheduler(call: ast.Call, ip: Interpreter, per_step: set[ast.Call], facts: Facts) -> SchedulerFact:
    statement = facts.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    text = facts.text(target) if isinstance(target, (ast.Name, ast.Attribute)) else None
    cells = ip.sites.values.get(call, Value()).objs

    def steps_it(step: ast.Call) -> bool:
        held = step.func.value if isinstance(step.func, ast.Attribute) else None
        receivers = [n for n in (held, *step.args[:1]) if isinstance(n, ast.expr)]
        return any(ip.sites.values.get(n, EMPTY).objs & cells for n in receivers)

    return SchedulerFact(call, text, tuple(c for c in sorted(per_step, key=position) if steps_it(c)))


__all__ = ["Dep", "analyse", "analyse_program"]
