"""Objects of the abstract interpretation: one cell for each place that creates one."""

from __future__ import annotations

import ast

from ..dataclass import dataclass, field
from .joins import cut, join
from .values import EMPTY, Dep, FunctionRef, Role, Value

_DICTS = {"dict", "defaultdict", "OrderedDict", "Counter"}
VARS = "vars"
Context = tuple[int | None, ast.AST | None]


@dataclass
class Cell:
    """An object made at one place of the program (a list, a dict, an instance, an external object).

    Attributes:
        node: the expression that makes it.
        kind: what of that expression it is.
        context: the object and the call in which it was made.
        cls: its class, where that is part of the program.
        ref: dotted name of the external class or function that made it.
        attrs: joined values of its attributes and of literal string keys.
        element: joined value of its elements.
        sequence: modules that a container of modules was given, in their order.
        loops: loop statements that were running where it was made.
        roles: roles found out by how it is used.
        root: the model that it is a part of.
        rows: it has one entry for each sample of the batch that is collated.
        of_slice: it was filled by a loop over the rows of a slice inside a forward; "each" with one entry for a row,
            "some" with any number.
        hooks: functions that run with it, by when they do.
    """

    node: ast.AST
    kind: str = ""
    context: Context = (None, None)
    cls: ast.ClassDef | None = None
    ref: str | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    element: Value = EMPTY
    loops: tuple[ast.AST, ...] = ()
    roles: frozenset[Role] = frozenset()
    root: int | None = None
    sequence: tuple[Value, ...] = ()
    rows: bool = False
    of_slice: str = ""
    hooks: dict[str, Value] = field(default_factory=dict)

    @property
    def is_dict(self) -> bool:
        """Whether iterating over it gives keys."""
        if self.kind in ("kwargs", VARS):
            return True
        if isinstance(self.node, ast.Call):
            function = self.node.func
            return getattr(function, "id", getattr(function, "attr", "")) in _DICTS
        return self.cls is None and isinstance(self.node, (ast.Dict, ast.DictComp))


class Heap:
    """All cells; stores are weak updates (joins), so that repeated passes reach a fixed point."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self._by_key: dict[tuple[ast.AST, str, Context, ast.ClassDef | None, str | None], int] = {}
        self.hooked: set[int] = set()  # cells with hooks, few of many
        self.changed = False

    def allocate(
        self,
        node: ast.AST,
        kind: str = "",
        *,
        context: Context = (None, None),
        cls: ast.ClassDef | None = None,
        ref: str | None = None,
        loops: tuple[ast.AST, ...] = (),
    ) -> int:
        """The cell of one creating expression, in one object and call (the same one at every evaluation).

        One expression may create objects of several classes, of equal names even: `import_module(name).Model()`.
        """
        key = (node, kind, context, cls, ref)
        if key not in self._by_key:
            self._by_key[key] = len(self.cells)
            self.cells.append(Cell(node, kind, context, cls=cls, ref=ref, loops=loops))
            self.changed = True
        return self._by_key[key]

    def maker(self, index: int | None, node: ast.AST, cls: ast.ClassDef | None) -> int | None:
        """The object that tells one made by a method of another apart.

        Where objects make more of their kind (`def add(self, other): return Point(…)`), all that come of one are told
        apart by what made the first: else each would have cells of its own, without end.
        """
        current = index
        while current is not None:
            held = self.cells[current]
            if held.node is node or (cls is not None and held.cls is cls):
                return held.context[0]
            current = held.context[0]
        return index

    def __getitem__(self, index: int) -> Cell:
        return self.cells[index]

    def store(self, index: int, name: str, value: Value) -> None:
        """Join a value into an attribute."""
        cell = self.cells[index]
        old = cell.attrs.get(name, EMPTY)
        new = cut(join(old, value))
        if new != old or name not in cell.attrs:
            cell.attrs[name] = new
            self.changed = True

    def vars(self, index: int) -> int:
        """The cell of an object's `__dict__`: what is stored in one is stored in the other."""
        held = self.cells[index]
        cell = self.allocate(held.node, VARS, context=(index, None))
        self.cells[cell].attrs = held.attrs
        for value in held.attrs.values():
            self.add(cell, value)
        return cell

    def add(self, index: int, value: Value) -> None:
        """Join a value into the elements."""
        cell = self.cells[index]
        new = cut(join(cell.element, value))
        if new != cell.element:
            cell.element = new
            self.changed = True

    def outlive(self, index: int, value: Value) -> None:
        """A list or dict that is put into a container while it holds nothing lives on with it: `kept[key] = []`."""
        loops = self.cells[index].loops
        for item in value.objs:
            cell = self.cells[item]
            plain = cell.cls is None and cell.ref is None and not cell.roles
            empty = cell.element.dep is Dep.BOTTOM and cell.element.items is None
            if plain and empty and len(cell.loops) > len(loops) and cell.loops[: len(loops)] == loops:
                cell.loops = loops
                self.changed = True
                for held in (cell.element, *cell.attrs.values()):
                    self.outlive(item, held)

    def grown(self, value: Value) -> Value:
        """What lists that began with known members hold besides: `layers = [nn.Linear(4, 4)]`, `layers.append(norm)`.

        `EMPTY` where it is nothing but what their members are made of.
        """
        members = value.items or ((value.element,) if value.element is not None else ())
        known = {part for member in members for part in member.objs}
        later = EMPTY
        for cell in value.objs if members else ():
            later = join(later, self.cells[cell].element if not self.cells[cell].roles else EMPTY)
        return later if later.objs - known else EMPTY

    def sequence(self, index: int, members: tuple[Value, ...]) -> None:
        """Set the modules of a container, which every pass finds anew."""
        if self.cells[index].sequence != members:
            self.cells[index].sequence = members
            self.changed = True

    def hook(self, index: int, kind: str, value: Value) -> None:
        """Join a function into the hooks of a module."""
        cell = self.cells[index]
        new = join(cell.hooks.get(kind, EMPTY), value)
        if new != cell.hooks.get(kind):
            cell.hooks[kind] = new
            self.hooked.add(index)
            self.changed = True

    def mark(self, index: int, role: Role) -> None:
        """Give a cell a role that its use shows."""
        cell = self.cells[index]
        if role not in cell.roles:
            cell.roles |= {role}
            self.changed = True


class Classes:
    """Classes of the program: their methods through the bases that are part of it, and what they descend from."""

    def __init__(self) -> None:
        self._bases: dict[ast.ClassDef, list[ast.ClassDef | str]] = {}
        self._own: dict[ast.ClassDef, dict[str, ast.FunctionDef]] = {}

    def define(self, node: ast.ClassDef, bases: list[ast.ClassDef | str]) -> None:
        """Record a class with its resolved bases (program classes, or dotted names)."""
        self._bases[node] = bases

    def every(self) -> list[ast.ClassDef]:
        """All classes, in the order of the text."""
        return list(self._bases)

    def lineage(self, node: ast.ClassDef) -> list[ast.ClassDef | str]:
        """The class and all its bases, nearest first."""
        seen: list[ast.ClassDef | str] = [node]
        for item in seen:
            if isinstance(item, ast.ClassDef):
                seen.extend(base for base in self._bases.get(item, []) if base not in seen)
        return seen

    def descends(self, node: ast.ClassDef, *prefixes: str) -> bool:
        """Whether any external base has one of the dotted prefixes."""
        return any(isinstance(item, str) and item.startswith(prefixes) for item in self.lineage(node))

    def method(self, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """The function that a method name resolves to, `None` if it is external or missing."""
        for item in self.lineage(node):
            found = self._own_methods(item).get(name) if isinstance(item, ast.ClassDef) else None
            if found is not None:
                return found
        return None

    def _own_methods(self, node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
        """The functions that stand in a class's body, of equal names the first."""
        if node not in self._own:
            functions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            self._own[node] = {item.name: item for item in reversed(functions)}
        return self._own[node]

    def setter(self, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """The function that an assignment to a property runs, if a class of the program has one."""
        for item in self.lineage(node):
            for part in item.body if isinstance(item, ast.ClassDef) else ():
                marks = part.decorator_list if isinstance(part, ast.FunctionDef) and part.name == name else ()
                if any(isinstance(mark, ast.Attribute) and mark.attr == "setter" for mark in marks):
                    assert isinstance(part, ast.FunctionDef)
                    return part
        return None

    def runs(self, node: ast.ClassDef) -> ast.FunctionDef | None:
        """What a call of a module of this class runs, `None` if it is external."""
        return self.method(node, "__call__") or self.method(node, "forward")

    def is_function(self, node: ast.ClassDef) -> bool:
        """Whether it is a `torch.autograd.Function`."""
        return self.descends(node, "torch.autograd.")

    def is_module(self, node: ast.ClassDef) -> bool:
        """Whether instances are `nn.Module`s."""
        return self.descends(
            node, "torch.nn.", "pytorch_lightning.", "lightning.", "transformers.", "torchvision.models"
        )

    def is_dataset(self, node: ast.ClassDef) -> bool:
        """Whether instances are datasets."""
        return self.descends(node, "torch.utils.data.", "torchvision.datasets") and not self.is_loader(node)

    def is_loader(self, node: ast.ClassDef) -> bool:
        """Whether instances are data loaders."""
        return self.descends(node, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")

    def is_optimizer(self, node: ast.ClassDef) -> bool:
        """Whether instances are optimizers."""
        return self.descends(node, "torch.optim.") and not self.descends(node, "torch.optim.lr_scheduler")


def function_name(ref: FunctionRef) -> str:
    """Name of a function for messages."""
    return getattr(ref.node, "name", "<lambda>")
