"""What an interpretation found, written down for the rules: in the file that it stands in, in source order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import attributes, bends, by_hand, changes, unsharded
from .marks import Full, Split
from .model import Facts, Forward, LoaderFact, ModelFact, OptimizerFact, SchedulerFact
from .replacing import replace
from .steps import find_steps, position
from .values import EMPTY, Value

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .made import MadeOptimizer

T = TypeVar("T")

Held = dict[str, list[Any]]
"""What stands in one file, by kind."""


def fill(files: list[Facts], ip: Interpreter) -> None:
    """Write down what the interpretation found, in the file that it stands in, in source order."""
    tables = _tables(ip, files[0].parents)
    for facts in files:
        _fill_places(facts, ip, {name: table.get(facts.tree, []) for name, table in tables.items()})
    for facts in files:
        _fill_steps(facts, ip, {name: table.get(facts.tree, []) for name, table in tables.items()})
    unsharded.report(files, ip)


def _tables(ip: Interpreter, parents: Mapping[ast.AST, ast.AST]) -> dict[str, dict[ast.AST, list[Any]]]:
    """What was found by kind and by the tree of its file: each kind is gone through once, not once for each file."""

    def filed(items: Iterable[T], node: Callable[[T], ast.AST]) -> dict[ast.AST, list[T]]:
        found: dict[ast.AST, list[T]] = {}
        for item in items:
            root = node(item)
            while (parent := parents.get(root)) is not None:
                root = parent
            found.setdefault(root, []).append(item)
        return found

    def itself(node: ast.AST) -> ast.AST:
        return node

    made, sites = ip.made, ip.sites
    return {
        "reductions": filed(sites.reductions.values(), lambda r: r.node),
        "arrivals": filed(sites.arrivals.values(), lambda a: a.statement),
        "counts": filed(sites.counts.values(), lambda c: c.node),
        "gathers": filed(sites.gathers.values(), lambda g: g.node),
        "draws": filed(sites.draws.values(), lambda d: d.call),
        "alike": filed((call for call in sites.alike.values() if call not in sites.apart), itself),
        "splits": filed(sites.splits.values(), lambda s: s.node),
        "fulls": filed(sites.fulls.values(), lambda f: f.node),
        "opened": filed(changes.outermost(ip, list(sites.opened.values())), lambda item: item.statement),
        "sizes": filed(sites.sizes.values(), lambda s: s.node),
        "pads": filed(sites.pads.values(), lambda p: p.node),
        "findings": filed(sites.findings, lambda key: key[1]),
        "by hand": filed(made.by_hand, itself),
        "grads": filed(made.grads, itself),
        "together": filed(made.together, itself),
        "optimizers": filed(made.optimizers.values(), lambda item: item.statement),
        "loaders": filed(made.loaders, itself),
        "schedulers": filed(made.schedulers, itself),
        "forwards": filed(made.forwards, itself),
        "models": filed(_named(ip), lambda item: item.creations[0]),
    }


def _fill_places(facts: Facts, ip: Interpreter, held: Held) -> None:
    """The places of one file that need an edit, what is built in it, and its findings."""
    made, sites = ip.made, ip.sites
    facts.reductions = sorted(held["reductions"], key=lambda r: position(r.node))
    facts.arrivals = sorted(held["arrivals"], key=lambda a: position(a.statement))
    facts.counts = sorted(held["counts"], key=lambda c: position(c.node))
    facts.gathers = sorted(held["gathers"], key=lambda g: position(g.node))
    facts.draws = sorted(held["draws"], key=lambda d: position(d.call))
    facts.alike = sorted(held["alike"], key=position)
    facts.splits = _together(facts, sorted(held["splits"], key=lambda s: position(s.node)), ip)
    fulls = [f for f in held["fulls"] if not changes.is_open(ip, f.node, _models_in(ip, f))]
    facts.fulls = sorted(fulls, key=lambda f: position(f.node))
    facts.opened = sorted(held["opened"], key=lambda item: position(item.statement))
    facts.sizes = sorted(held["sizes"], key=lambda s: position(s.node))
    facts.pads = sorted(held["pads"], key=lambda p: position(p.node))
    facts.findings = [sites.findings[key] for key in held["findings"]]
    facts.findings += by_hand.report(ip, held["by hand"])
    facts.grads = sorted(held["grads"], key=position)
    facts.together = {call: made.together[call] for call in held["together"]}
    facts.updates = sorted(by_hand.updates(ip, held["by hand"]), key=lambda u: position(u.statement))
    facts.optimizers = [_optimizer(item) for item in sorted(held["optimizers"], key=lambda o: position(o.call))]
    facts.models = held["models"]
    facts.loaders = [
        LoaderFact(call, call in sites.feeds, call in sites.sharded, call in made.apart, call in made.unclear)
        for call in sorted(held["loaders"], key=position)
    ]


def _models_in(ip: Interpreter, item: Full) -> frozenset[int]:
    """The models whose parameters an expression gives."""
    return frozenset(attributes.root(ip, cell) for cell in ip.sites.values.get(item.node, EMPTY).params)


def _fill_steps(facts: Facts, ip: Interpreter, held: Held) -> None:
    """The training steps of one file, with their forwards and schedulers."""
    made = ip.made
    forwards = [Forward(call, *made.forwards[call], False) for call in held["forwards"]]
    steps = find_steps(made, sorted(forwards, key=lambda f: position(f.call)), facts.parents, facts.tree)
    training = {f.call for step in steps for f in step.forwards}
    facts.forwards = sorted(
        (Forward(f.call, f.model, f.method, f.call in training) for f in forwards), key=lambda f: position(f.call)
    )
    steps = find_steps(made, facts.forwards, facts.parents, facts.tree)
    facts.steps = [replace(step, bends=bends.of_step(ip, step)) for step in steps]
    per_step = {call for step in facts.steps if step.loop is not None for call in step.scheduler_steps}
    schedulers = sorted(held["schedulers"], key=position)
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


def _named(ip: Interpreter) -> Iterator[ModelFact]:
    """The models that optimizers own, with the name they have where the optimizer is built."""
    texts: dict[int, str] = {}
    for optimizer in ip.made.optimizers.values():
        for cell in optimizer.cells if optimizer.models else ():
            texts.setdefault(cell, optimizer.models[0])
    for cell in sorted(ip.sites.owned):
        node = ip.heap[cell].node
        if isinstance(node, ast.Call) and cell in texts:
            yield ModelFact((node,), texts[cell])


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
