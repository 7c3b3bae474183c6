"""Results for the tests of formats, converted once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from distify.codemod.edits import Span
from distify.codemod.findings import finding
from distify.codemod.options import Options
from distify.codemod.rewrite import Result, rewrite_source

SOURCE = """\
import time
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(3, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)
start = time.time()
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        '😀é'; z = out.squeeze()
        noise = torch.randn(x.size(0), 4)
        loss = F.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        if time.time() - start > 9:
            break
    best = model.state_dict()
    print(f"{epoch} {loss.item():.4f} ```` </script><b> @torch")
rng = torch.seed()
torch.save(best, "m.pt")
"""


@cache
def converted() -> Result:
    """A script that is converted, with findings of two levels."""
    return rewrite_source(SOURCE.encode(), "src/train one.py", Options(backend="fsdp"))


@cache
def refused() -> Result:
    """A script of which something is refused."""
    error = finding("DST203", Span(3, 0, 3, 8), "100% wrong: a,b\r\n::error::{0}", "use --backend ddp")
    text = "import torch\n\nmodel = 1\n"
    return Result("other.py", text.encode(), text.encode(), text, (error,), training=True)


def alone() -> Result:
    """A file that trains nothing."""
    return Result("tool.py", b"print(1)\n", b"print(1)\n")


def longer(result: Result, lines: int) -> Result:
    """The same findings in a file with some more lines at its top, and other comments and blanks."""
    text = "# more\n" * lines + result.text.replace("z = out", "z  =  out").replace("seed()", "seed()  # why")
    moved = [
        replace(
            item,
            span=Span(item.span.line + lines, item.span.column, item.span.end_line + lines, item.span.end_column),
        )
        for item in result.findings
    ]
    moved = [replace(item, span=Span.of(at(text, item))) for item in moved]
    return replace(result, before=text.encode(), data=text.encode(), text=text, findings=tuple(moved), changes=())


def at(text, item):
    """The call that a finding is about, in another text."""
    import ast

    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.lineno == item.span.line]
    return max(calls, key=lambda node: node.end_col_offset - node.col_offset)
