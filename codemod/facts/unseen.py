"""Parts of a trained model whose forward nothing in the text calls: what it makes of a batch is looked at all the same.

A library may run it (`TransformerEncoder(MyLayer(), 6)`, a layer put into a model of torchvision), or code that can't
be followed. Such code is taken to work row by row; a part that does not must be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import attributes
from .values import Batch, Dep, FunctionRef, Value

if TYPE_CHECKING:
    import ast

    from .interpreter import Interpreter

MESSAGE = "What this forward makes of a batch is no row for each sample, and where it is called can't be followed."
HINT = "call it where the program can be read (self.part(x)), or take it out of the model"
BACKWARD = "What this backward makes of the gradients is no row for each sample, and each process has its slice only."
BACKWARD_HINT = "let a gradient depend on its own sample; norms over all: clip_grad_norm_ after backward"


def look(ip: Interpreter) -> None:
    """Report the forwards that no interpreted forward has called, and backwards, that do not work row by row."""
    for index, cell in enumerate(list(ip.heap.cells)):
        if cell.cls is None or cell.kind == attributes.CLASS or not attributes.is_prepared(ip, index):
            continue
        method = ip.classes.runs(cell.cls)
        if method is not None and method not in ip.ran_forwards and _mixes(_result(ip, method, index)):
            ip.sites.report("DST110", method, MESSAGE, HINT)

    for cls in ip.classes.every():
        method = ip.classes.method(cls, "forward")
        if method in ip.ran_forwards and ip.classes.is_function(cls):
            backward = ip.classes.method(cls, "backward")
            if backward is not None and _mixes(_result(ip, backward, None), (Dep.UNKNOWN, Dep.COUPLED)):
                ip.sites.report("DST110", backward, BACKWARD, BACKWARD_HINT)


def _result(ip: Interpreter, method: ast.FunctionDef, index: int | None) -> Value:
    """What a forward returns for inputs with a row for each sample; nothing is noted on the way.

    A method of no object (`index` is `None`) has its context first: the backward of a `torch.autograd.Function`.
    """
    from . import calls

    required = len(method.args.posonlyargs) + len(method.args.args) - len(method.args.defaults)
    rows = Value(batch=Batch(Dep.SAMPLE, dim=0))
    given: dict[int | str, Value] = dict.fromkeys(range(1, max(required, 2)), rows)
    with ip.sites.hushed():
        return calls.enter(ip, FunctionRef(method, index), given, ip.closure(method), None, None, True)


def _mixes(value: Value, kinds: tuple[Dep, ...] = (Dep.UNKNOWN, Dep.COUPLED, Dep.PENDING)) -> bool:
    held = [*(value.items or ()), *([value.element] if value.element is not None else [])]
    return value.dep in kinds or any(_mixes(item, kinds) for item in held)
