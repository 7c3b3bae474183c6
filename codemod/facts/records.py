"""What an interpretation found, written down for the rules: in the file that it stands in, in source order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import attributes, bends, by_hand, changes, unsharded
from .marks import Full, Split
from .model import Facts, Forward, LoaderFact, ModelFact, OptimizerFact, SchedulerFact
from .replacing import replace
from .steps import find_steps, position
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .made import MadeOptimizer


def fill(files: list[Facts], ip: Interpreter) -> None:
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
    facts.alike = sorted((c for c in sites.alike.values() if holds(c) and c not in sites.apart), key=position)
    splits = sorted((s for s in sites.splits.values() if holds(s.node)), key=lambda s: position(s.node))
    facts.splits = _together(facts, splits, ip)
    fulls = [f for f in sites.fulls.values() if holds(f.node) and not changes.is_open(ip, f.node, _models_in(ip, f))]
    facts.fulls = sorted(fulls, key=lambda f: position(f.node))
    opened = [item for item in changes.outermost(ip, list(sites.opened.values())) if holds(item.statement)]
    facts.opened = sorted(opened, key=lambda item: position(item.statement))
    facts.sizes = sorted((s for s in sites.sizes.values() if holds(s.node)), key=lambda s: position(s.node))
    facts.pads = sorted((p for p in sites.pads.values() if holds(p.node)), key=lambda p: position(p.node))
    facts.findings = [item for (_, node), item in sites.findings.items() if holds(node)]
    facts.findings += by_hand.report(facts, ip)
    facts.grads = sorted(filter(facts.holds, ip.made.grads), key=position)
    facts.together = {call: name for call, name in made.together.items() if holds(call)}
    facts.updates = sorted(by_hand.updates(facts, ip), key=lambda u: position(u.statement))
    optimizers = [item for item in made.optimizers.values() if holds(item.statement)]
    facts.optimizers = [_optimizer(item) for item in sorted(optimizers, key=lambda o: position(o.call))]
    facts.models = _models(facts, ip)
    facts.loaders = [
        LoaderFact(call, call in sites.feeds, call in sites.sharded, call in made.apart, call in made.unclear)
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


def _together(facts: Facts, splits: list[Split], ip: Interpreter) -> list[Split]:
    """`x, y = data[i], labels[i]`: members of one tuple are split together, as one batch, if they are one."""
    nodes = {s.node: s for s in splits}
    found: dict[ast.AST, Split] = {}
    for item in splits:
        parent = facts.parents[item.node]
        pair = isinstance(parent, ast.Tuple) or isinstance(getattr(parent, "ctx", None), ast.Store)
        if isinstance(parent, (ast.Tuple, ast.List)) and pair and _is_one_batch(facts, parent, nodes, ip):
            found.setdefault(parent, Split(parent, item.dim))
        else:
            found.setdefault(item.node, item)
    return list(found.values())


def _is_one_batch(facts: Facts, parent: ast.Tuple | ast.List, splits: dict[ast.expr, Split], ip: Interpreter) -> bool:
    """Whether all members of a tuple are split, as rows of one batch: they meet, or are picked by the same index."""
    members = parent.elts
    if not all(e in splits and splits[e].dim == splits[members[0]].dim for e in members):
        return False
    picks = {facts.text(e.slice) if isinstance(e, ast.Subscript) else "" for e in members}
    return len(picks) == 1 or set(members) <= ip.sites.one_batch(frozenset(members[:1]))


def _optimizer(item: MadeOptimizer) -> OptimizerFact:
    in_place = item.in_place is not None
    return OptimizerFact(item.call, item.statement, item.text, item.models, item.qualified, in_place, item.late)


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
