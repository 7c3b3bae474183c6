"""Each fixture's conversion is the committed one, and other options change what they must and nothing else."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from functools import cache

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import Result
from tests import conversions
from tests.parity.cases import CASES, FIXTURES

NAMES = [case.name for case in CASES]
BUDGET = 0.35  # of a fixture's lines may be added or changed, at most


def rewrite(name: str, options: Options, data: bytes | None = None) -> Result:
    data = (FIXTURES / name / "train.py").read_bytes() if data is None else data
    return rewritten(data, f"{name}/train.py", tuple(options.given().items()))


@cache
def rewritten(data: bytes, path: str, given: tuple[tuple[str, str | int], ...]) -> Result:
    return conversions.rewrite(data, path, Options(**dict(given)))  # type: ignore[arg-type]


def converted(name: str, data: bytes | None = None, **options: str | int) -> bytes:
    """The conversion, which nothing may refuse."""
    result = rewrite(name, Options(**options), data)  # type: ignore[arg-type]
    assert not result.refused, [item for item in result.findings if item.level == "error"]
    return result.data


@pytest.mark.parametrize("name", NAMES)
def test_ddp(name: str) -> None:
    expected = (FIXTURES / name / "expected_ddp.py").read_bytes().decode()
    actual = converted(name, backend="ddp").decode()
    if actual != expected:
        lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="")
        pytest.fail("\n".join(lines))


@pytest.mark.parametrize("name", NAMES)
def test_the_diff_is_small_and_keeps_line_ends(name: str) -> None:
    before = (FIXTURES / name / "train.py").read_bytes().splitlines(keepends=True)
    after = converted(name, backend="ddp").splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    touched = sum(j2 - j1 for tag, _, _, j1, j2 in matcher.get_opcodes() if tag != "equal")
    assert touched <= BUDGET * len(before)
    ends = {re.search(rb"\r?\n$", line).group() for line in before}  # type: ignore[union-attr]
    assert {re.search(rb"\r?\n$", line).group() for line in after} == ends  # type: ignore[union-attr]


@pytest.mark.parametrize("name", NAMES)
def test_another_backend_changes_the_init_call_only(name: str) -> None:
    ddp = converted(name, backend="ddp")
    fsdp = closed(converted(name, backend="fsdp"))
    assert fsdp == ddp.replace(b'init(backend="ddp")', b'init(backend="fsdp")') != ddp
    zero = closed(converted(name, backend="deepspeed", zero_stage=1))
    assert zero == ddp.replace(b'init(backend="ddp")', b'init(backend="deepspeed", zero_stage=1)')


@pytest.mark.parametrize("name", NAMES)
def test_nothing_given_nothing_written(name: str) -> None:
    ddp = converted(name, backend="ddp")
    assert closed(converted(name)) == ddp.replace(b'init(backend="ddp")', b"init()")


def closed(data: bytes) -> bytes:
    """A conversion without what only sharded parameters need: blocks in which models are whole, states on the device."""
    data = data.replace(b", host=False)", b")")
    kept: list[bytes] = []
    opened: int | None = None
    for line in data.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if b"with runtime.whole(" in line:
            opened = indent
            continue
        opened = opened if opened is not None and indent > opened else None
        kept.append(line if opened is None else line[4:])
    return b"".join(kept)


@pytest.mark.parametrize("name", NAMES)
def test_fp32_has_no_autocast(name: str) -> None:
    text = converted(name, backend="ddp", precision="fp32").decode()
    assert "autocast" not in text
    assert 'init(backend="ddp", precision="fp32")' in text
    # and nothing else changed: with the blocks of the other taken out, both are the same program
    other = ast.parse(converted(name, backend="ddp").decode())
    assert ast.dump(without_autocast(other)) == ast.dump(ast.parse(text.replace(', precision="fp32"', "")))


def without_autocast(tree: ast.AST) -> ast.AST:
    """A tree in which the statements of autocast blocks stand in their place."""

    class Remove(ast.NodeTransformer):
        def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
            self.generic_visit(node)
            return node.body if ast.unparse(node.items[0]) == "runtime.autocast()" else node

    return Remove().visit(tree)  # type: ignore[no-any-return]


OPTIONS: list[dict[str, str | int]] = [
    {"backend": "ddp"},
    {"backend": "fsdp", "precision": "bf16"},
    {"backend": "ddp", "precision": "fp32"},
    {"backend": "deepspeed", "precision": "fp16", "zero_stage": 3},
    {"backend": "fsdp", "precision": "fp16", "accumulate": 4},
]


@pytest.mark.parametrize(("first", "second"), list(itertools.pairwise([*OPTIONS, OPTIONS[0]])), ids=str)
@pytest.mark.parametrize("name", ["functions", "trainer_class", "weighted_sampler"])
def test_converting_again(name: str, first: dict[str, str | int], second: dict[str, str | int]) -> None:
    """What was not given the second time stays as it is; what was given replaces the first."""
    both = {**first, **second}
    if both["backend"] != "deepspeed":
        both.pop("zero_stage", None)  # goes with the backend that it belonged to
    results = [rewrite(name, Options(**options)) for options in (first, both)]  # type: ignore[arg-type]
    assert converted(name, results[0].data, **second) == results[1].data


@pytest.mark.parametrize("name", [case.name for case in CASES if case.accumulate])
def test_accumulation(name: str) -> None:
    text = converted(name, backend="ddp", accumulate=4)
    assert text.count(b".accumulate() as window:") == 1
    without, direct = converted(name, text, accumulate=1), converted(name, backend="ddp", accumulate=1)
    if b"; " in direct:  # statements that shared a line have one each now
        assert ast.dump(ast.parse(without)) == ast.dump(ast.parse(direct))
    else:
        assert without == direct
