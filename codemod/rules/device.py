"""Compute on the device of this process, however the script names it.

    -device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    +device = runtime.device()
    -images = images.cuda(non_blocking=True)
    +images = images.to(runtime.device(), non_blocking=True)

A device with a number would be the same one for all processes (pytorch/examples#969, marcoamonteiro/pi-GAN#22).
`"cuda"` alone means the current device, which `init` sets, so it stays wherever the script decides by something else
than availability (`args.no_cuda`), and wherever a string is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Delete, Ref, Replace, Span, Wrap
from ..findings import finding
from ..trees import children
from . import Outcome, rule
from ._devices import INDEXED, is_text, kind_of
from ._source import keyword_value

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

KEYWORDS = ("device", "map_location")
VISIBLE = "CUDA_VISIBLE_DEVICES"
SHOWN = ("builtins.print", "builtins.input", "warnings.warn")


@rule("device")
def device(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`runtime.device()` for every expression that names a CUDA device."""
    second = placed_apart(facts)
    if second is not None:
        yield finding("DST306", second)
    own = {item.name for item in facts.nodes if isinstance(item, ast.FunctionDef)}
    yield from visit(facts, facts.tree, "cuda" in own)


def placed_apart(facts: Facts) -> ast.AST | None:
    """The first place where a second device is named by its number, `None` if at most one is."""
    numbers: set[str] = set()
    for node in facts.nodes:
        number = number_of(facts, node)
        if number is not None and not is_choice(facts, node):
            numbers.add(number)
            if len(numbers) == 2:
                return node
    return None


def number_of(facts: Facts, node: ast.AST) -> str | None:
    """The number of the device of `x.to("cuda:1")`, `x.cuda(1)`, `torch.device("cuda:1")`, `device="cuda:1"`."""
    if isinstance(node, ast.keyword) and node.arg == "device":
        where: ast.expr | None = node.value
    elif is_method(node, "to") or is_method(node, "cuda") or calls_to(facts, node, "torch.device"):
        assert isinstance(node, ast.Call)
        where = node.args[0] if node.args else None
        if calls_to(facts, node, "torch.device") and len(node.args) == 2:
            where = node.args[1]
    else:
        return None
    value = where.value if isinstance(where, ast.Constant) else None
    if isinstance(value, str) and INDEXED.fullmatch(value):
        return value.partition(":")[2]
    return str(value) if type(value) is int else None


def is_choice(facts: Facts, node: ast.AST) -> bool:
    """Whether a device is one of several to choose from, or says where a file's tensors go."""
    found: ast.AST | None = node
    while found is not None and not isinstance(found, ast.stmt):
        if isinstance(found, (ast.IfExp, ast.Dict)) or (isinstance(found, ast.keyword) and found.arg == "map_location"):
            return True
        found = facts.parents.get(found)
    return isinstance(facts.parents.get(found), ast.If) if found is not None else False


def visit(facts: Facts, node: ast.AST, own_cuda: bool) -> Iterator[Outcome]:
    """The edits of a node and, unless it is replaced as a whole, of its children."""
    whole: Outcome | None = None
    if isinstance(node, ast.expr):
        whole = named(facts, node)
    elif isinstance(node, ast.Expr) and calls_to(facts, node.value, "torch.cuda.set_device"):
        whole = Delete(Span.of(node), kind="device")
    elif isinstance(node, ast.Assign) and limits_devices(facts, node):
        yield finding("DST904", node)
        whole = Delete(Span.of(node), kind="device")
    if whole is not None:
        yield whole
        return
    if isinstance(node, ast.Call):
        yield from moved(facts, node, own_cuda)
    for child in children(node):
        yield from visit(facts, child, own_cuda)


def here(facts: Facts, node: ast.expr) -> Replace:
    """`runtime.device()` in the place of an expression."""
    return Replace(Span.of(node), "device", {"runtime": facts.runtime_name}, kind="device")


def named(facts: Facts, node: ast.expr) -> Outcome | None:
    """The replacement of an expression that names a CUDA device, `None` if it stays."""
    kind = kind_of(facts, node)
    if kind is None:
        return moves_to_cuda(facts, node)
    parent = facts.parents[node]
    if not is_text(node) or is_device_position(facts, node, parent):
        return here(facts, node)
    if kind == "auto":
        return here(facts, node) if isinstance(parent, ast.Assign) and not used_as_text(facts, parent) else None
    if kind == "indexed" and keeps_its_meaning(facts, node, parent):
        text = facts.text(node)
        bare = INDEXED.sub("cuda", text) if isinstance(node, ast.Constant) else '"cuda"'
        return Replace(Span.of(node), "text", {"text": bare}, kind="device")
    return None


def moves_to_cuda(facts: Facts, node: ast.expr) -> Outcome | None:
    """`map_location=lambda storage, loc: storage.cuda(0)`, and the mapping form."""
    parent = facts.parents[node]
    if not (isinstance(parent, ast.keyword) and parent.arg == "map_location"):
        return None
    if isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call):
        return here(facts, node) if is_method(node.body, "cuda") else None
    if isinstance(node, ast.Dict) and node.values and all(kind_of(facts, value) for value in node.values):
        return here(facts, node)
    return None


def is_device_position(facts: Facts, node: ast.expr, parent: ast.AST) -> bool:
    """Whether an expression is an argument that takes a device: `x.to(…)`, `device=…`, `map_location=…`."""
    if isinstance(parent, ast.keyword):
        call = facts.parents[parent]
        moves = parent.arg == "map_location" or is_method(call, "to") or is_method(call, "cuda")
        return parent.arg in KEYWORDS and (moves or takes_device(facts, call))
    if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node:
        second = isinstance(parent, ast.Call) and len(parent.args) > 1 and parent.args[1] is node
        return second and calls_to(facts, parent, "torch.load", "distify.runtime.load")
    return is_method(parent, "to") or is_method(parent, "cuda") or calls_to(facts, parent, "torch.cuda.device")


def takes_device(facts: Facts, call: ast.AST) -> bool:
    """Whether a call is of a torch function or class (whose `device` takes a device, not only a string)."""
    name = facts.names.qualified(call.func) if isinstance(call, ast.Call) else None
    return (name or "").startswith(("torch.", "distify."))


def keeps_its_meaning(facts: Facts, node: ast.expr, parent: ast.AST) -> bool:
    """Whether the number of `"cuda:0"` can be left out: the string is a value, not shown, compared or looked up."""
    if isinstance(parent, ast.Call):
        return not calls_to(facts, parent, *SHOWN)
    if isinstance(node, ast.Constant):
        return isinstance(
            parent, (ast.Assign, ast.AnnAssign, ast.IfExp, ast.keyword, ast.arguments, ast.Return, ast.Dict)
        )
    return isinstance(parent, (ast.Assign, ast.IfExp, ast.Return))


def used_as_text(facts: Facts, assignment: ast.Assign) -> bool:
    """Whether a name that holds a device string is used as a string: compared, formatted, searched, shown."""
    texts = {facts.text(target) for target in assignment.targets}
    for node in facts.nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or facts.text(node) not in texts:
            continue
        parent = facts.parents[node]
        if isinstance(parent, (ast.Compare, ast.FormattedValue, ast.BinOp, ast.Attribute, ast.Subscript, ast.Dict)):
            return True
        if isinstance(parent, ast.keyword) and parent.arg not in KEYWORDS:
            return True
        if isinstance(parent, ast.Call) and calls_to(facts, parent, *SHOWN, "torch.autocast", "torch.amp.autocast"):
            return True
        if isinstance(parent, ast.Call) and is_method(parent, "format"):
            return True
    return False


def moved(facts: Facts, call: ast.Call, own_cuda: bool) -> Iterator[Outcome]:
    """`x.cuda(…)`, `x.to(0)` and `torch.cuda.FloatTensor(…)`."""
    span, runtime = Span.of(call), facts.runtime_name
    name = facts.names.qualified(call.func)
    if not isinstance(call.func, ast.Attribute):
        return
    if name is not None:
        if name.startswith("torch.cuda.") and name.endswith("Tensor") and isinstance(call.func.value, ast.Attribute):
            params = {"receiver": Ref.to(call.func.value.value), "name": call.func.attr}
            yield Wrap(span, "to_device", {"runtime": runtime}, kind="device")
            yield Replace(Span.of(call.func), "method", params, kind="device")
        elif name == "torch.cuda.device" and call.args and kind_of(facts, call.args[0]) is None:
            yield here(facts, call.args[0])
        return
    if call.func.attr == "cuda" and (call.args or call.keywords or not own_cuda):
        yield from cuda_call(facts, call, call.func)
    elif call.func.attr == "to" and call.args and is_number(facts, call.args[0]):
        yield here(facts, call.args[0])


def cuda_call(facts: Facts, call: ast.Call, callee: ast.Attribute) -> Iterator[Outcome]:
    """`x.cuda()` becomes `x.to(runtime.device())`; a device that it names is left out, other arguments stay."""
    params = {"receiver": Ref.to(callee.value), "name": "to"}
    span = Span.of(call)
    where = call.args[0] if call.args else keyword_value(call, "device")
    if where is None:
        yield Callee(
            span, "method", {**params, "runtime": facts.runtime_name}, ("{{ runtime }}.device()",), kind="device"
        )
        return
    yield Callee(span, "method", params, kind="device")
    if kind_of(facts, where) is None:
        yield here(facts, where)


def is_number(facts: Facts, node: ast.expr) -> bool:
    """Whether a device is given as a number."""
    value = facts.value(node).const
    return isinstance(value, int) and not isinstance(value, bool)


def is_method(node: ast.AST, name: str) -> bool:
    """Whether a node calls a method of that name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def calls_to(facts: Facts, node: ast.AST, *names: str) -> bool:
    """Whether a node calls one of the functions."""
    return isinstance(node, ast.Call) and facts.names.qualified(node.func) in names


def limits_devices(facts: Facts, node: ast.Assign) -> bool:
    """Whether a statement makes one device visible: `os.environ["CUDA_VISIBLE_DEVICES"] = "0"`."""
    target = node.targets[0]
    if not (isinstance(target, ast.Subscript) and facts.names.qualified(target.value) == "os.environ"):
        return False
    if not (isinstance(target.slice, ast.Constant) and target.slice.value == VISIBLE):
        return False
    value = node.value.value if isinstance(node.value, ast.Constant) else "0"
    return isinstance(value, str) and value.strip().isdigit()
