"""Converted scripts: clean as they come, and what somebody writes into them later is found, and mended exactly."""

from __future__ import annotations

import functools

import pytest

from distify.codemod.checking import check_source
from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

from ..facts.snippets import script

PLAIN = script(
    "right += (out.argmax(1) == y).sum().item()",
    before="right = 0",
    after="print(right)\nif right > 3:\n    torch.save(model.state_dict(), 'model.pt')",
)


@functools.cache
def converted(source: str = PLAIN) -> str:
    """A source, converted."""
    result = rewrite_source(source.encode(), "train.py", Options())
    assert result.changed
    return result.data.decode()


def changed(old: str, new: str) -> str:
    """The converted script with something else in it."""
    text = converted()
    assert text.count(old) == 1, (old, text)
    return text.replace(old, new)


def told(source: str) -> list[tuple[str, str, str]]:
    """Codes and levels of the findings, each with the line that it is about."""
    lines = source.splitlines()
    result = check_source(source.encode(), "train.py")
    return [(item.code, item.level, lines[item.span.line - 1].strip()) for item in result.findings]


def test_a_plain_script_is_told_what_a_rewrite_would_do() -> None:
    result = check_source(PLAIN.encode(), "train.py")
    (item,) = result.findings
    assert (item.code, item.level) == ("DST952", "note")
    assert item.message.startswith("A rewrite would make 10 edits: ")
    assert "loader 1" in item.message
    assert "; see DST101" in item.message
    assert result.data.decode() == converted()


def test_a_plain_script_is_told_what_a_rewrite_refuses() -> None:
    result = check_source(script("x[0] = 0").encode(), "train.py")
    assert [(item.code, item.level) for item in result.findings] == [("DST952", "note"), ("DST110", "error")]
    assert "it refuses 1 more place, so it writes nothing" in result.findings[0].message
    assert not result.changed


def test_what_trains_nothing_has_no_findings() -> None:
    assert told("import torch\nprint(torch.ones(3).mean().item())\n") == []


def test_a_converted_script_is_clean() -> None:
    assert told(converted()) == []


LATER = {
    "a loader": (
        ("runtime.shard(DataLoader(data, batch_size=7))", "DataLoader(data, batch_size=7)"),
        "DST151",
    ),
    "a backward": (("runtime.backward(loss)", "loss.backward()"), "DST251"),
    "a step": (("runtime.step(opt)", "opt.step()"), "DST252"),
    "a model": (("runtime.prepare(model, opt)\n", ""), "DST351"),
    "a count": (("runtime.sum((out.argmax(1) == y).sum()).item()", "(out.argmax(1) == y).sum().item()"), "DST552"),
    "a save": (
        ("runtime.save(runtime.state_dict(model), 'model.pt')", "torch.save(model.state_dict(), 'model.pt')"),
        "DST751",
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_what_is_written_later_is_found_and_mended(name: str) -> None:
    (old, new), code = LATER[name]
    source = changed(old, new)
    assert [(found, level) for found, level, _ in told(source)] == [(code, "error")]
    assert check_source(source.encode(), "train.py").data.decode() == converted()


def test_a_clip_a_file_and_a_number_that_are_new() -> None:
    source = changed(
        "    runtime.step(opt)\n",
        "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    runtime.step(opt)\n"
        "    print(out.abs().max().item())\n    open('log.csv', 'w')\n",
    )
    assert told(source) == [
        ("DST252", "error", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ("DST552", "error", "print(out.abs().max().item())"),
        ("DST802", "warning", "open('log.csv', 'w')"),
    ]


def test_a_collective_of_the_runtime_on_one_process() -> None:
    line = "runtime.save(runtime.state_dict(model), 'model.pt')"
    source = changed("if right > 3:", "if runtime.is_main():")
    assert told(source) == [("DST651", "error", line)] * 2
    assert told(changed("if right > 3:", "if runtime.world_size() > 1:")) == []


def test_streams_of_each_process() -> None:
    source = changed("runtime.init()", "runtime.init()\ntorch.manual_seed(7 + runtime.rank())")
    assert told(source) == [("DST155", "error", "torch.manual_seed(7 + runtime.rank())")]
    assert told(source.replace("runtime.rank()", "runtime.world_size()")) == []


def test_what_is_left_by_one_process_is_told_once() -> None:
    source = changed(
        "if right > 3:",
        "for part in range(3):\n    if runtime.is_main():\n        break\n    runtime.barrier()\nif right > 3:",
    )
    assert told(source) == [("DST651", "error", "break")]


def test_a_load_is_not_called_a_save() -> None:
    source = changed(
        "runtime.prepare(model, opt)\n", "runtime.prepare(model, opt)\nmodel.load_state_dict(torch.load('model.pt'))\n"
    )
    ((code, _, line),) = told(source)
    assert (code, line) == ("DST751", "model.load_state_dict(torch.load('model.pt'))")
    (item,) = check_source(source.encode(), "train.py").findings
    assert item.message.startswith("This saves or loads past the runtime")


def test_only_what_is_wanted_is_mended() -> None:
    from distify.codemod.selection import Selection

    source = changed("runtime.backward(loss)", "loss.backward()").replace("runtime.step(opt)", "opt.step()")
    result = check_source(source.encode(), "train.py", Selection(select=("DST251",)))
    assert [item.code for item in result.findings] == ["DST251"]
    assert result.data.decode() == changed("runtime.step(opt)", "opt.step()")


def test_what_is_suppressed_is_not_mended() -> None:
    source = changed("runtime.backward(loss)", "loss.backward()  # distify: ignore[DST251]")
    result = check_source(source.encode(), "train.py")
    assert result.findings == ()
    assert not result.changed


def test_comments_without_effect() -> None:
    source = changed("runtime.step(opt)", "runtime.step(opt)  # distify: ignore[DST252, DST112]")
    ((code, level, _),) = told(source)  # a note of the conversion is gone with it, and its comment may stay
    assert (code, level) == ("DST900", "warning")


def test_what_a_conversion_assumed_is_a_note_afterwards() -> None:
    plain = script("z = out.squeeze()")
    assert ("DST108", "warning") in [(code, level) for code, level, _ in told(plain)]
    assert [(code, level) for code, level, _ in told(converted(plain))] == [("DST108", "note")]
