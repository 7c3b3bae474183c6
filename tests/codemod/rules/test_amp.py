"""The script's own mixed precision gives way where another is asked for, and stays where none is."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from tests.codemod.rules.checks import check_noop, check_rewritten, outcome, script

BEFORE = """
scaler = torch.cuda.amp.GradScaler()
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = runtime.mean(F.cross_entropy(model(x), y))
    # scaled
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    runtime.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

AFTER = """
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    with runtime.autocast():
        loss = runtime.mean(F.cross_entropy(model(x), y))
    # scaled
    loss.backward()
    runtime.clip_grad_norm_(model.parameters(), 1.0)
    runtime.step(optimizer)
"""


@pytest.mark.parametrize(
    "options", [{"precision": "bf16"}, {"precision": "fp16"}, {"backend": "fsdp"}, {"accumulate": 2}]
)
def test_folded(options: dict[str, str | int]) -> None:
    check_rewritten("amp", BEFORE, AFTER, **options)


def test_no_blocks_under_fp32() -> None:
    plain = AFTER.replace("    with runtime.autocast():\n        loss", "    loss")
    check_rewritten("amp", BEFORE, plain, precision="fp32")


@pytest.mark.parametrize("options", [{}, {"backend": "ddp"}, {"accumulate": 1}, {"batchnorm": "local"}])
def test_kept_where_nothing_else_is_asked_for(options: dict[str, str | int]) -> None:
    check_noop("amp", BEFORE, ["DST401"], **options)


@pytest.mark.parametrize(
    "context", ["torch.cuda.amp.autocast()", "torch.amp.autocast('cpu')", "torch.cuda.amp.autocast(enabled=True)"]
)
def test_other_spellings(context: str) -> None:
    check_rewritten(
        "amp", BEFORE.replace('torch.autocast("cuda", dtype=torch.float16)', context), AFTER, precision="fp16"
    )


def test_a_scaler_that_is_passed_on_stands_for_the_runtimes() -> None:
    use = "\n\ndef note(thing):\n    return thing\n\n\nnote(scaler)\n"
    after = AFTER.replace("model = Net()", "scaler = runtime.scaler()\nmodel = Net()", 1) + use
    check_rewritten("amp", BEFORE + use, after, precision="fp16")


def test_a_scaler_in_a_checkpoint_is_the_runtimes() -> None:
    use = "state = scaler.state_dict()\n"
    after = AFTER.replace("model = Net()", "scaler = runtime.scaler()\nmodel = Net()", 1) + use
    check_rewritten("amp", BEFORE + use, after, precision="fp16")


def test_a_scaler_that_a_condition_switches_off() -> None:
    before = BEFORE.replace("GradScaler()", "GradScaler(enabled=len(data) > 3)")
    check_noop("amp", before, ["DST401"])
    check_rewritten("amp", before, AFTER, ["DST401"], again=[], backend="fsdp")
    check_rewritten("amp", before, AFTER, precision="bf16")


@pytest.mark.parametrize(
    "line", ["inverse = 1.0 / scaler.get_scale()", "scaler.update(2.0)", "scaler.scale([loss, loss], 1)"]
)
def test_other_uses_are_refused(line: str) -> None:
    complete = script(BEFORE + f"    {line}\n")
    _, findings = outcome("amp", complete, Options(precision="fp16"))
    assert [item.code for item in findings] == ["DST402"]
    assert findings[0].level == "error"
    start = complete[: complete.index(line)].count("\n") + 1
    assert findings[0].span.line == start


NOOPS = {
    "converted": AFTER,
    "another scaler": AFTER + "class Scaler:\n    def scale(self, x):\n        return x\n\n\nScaler().scale(1)\n",
    "switched off": AFTER + 'with torch.autocast("cuda", enabled=False):\n    z = torch.zeros(2)\n',
}

INSIDE = """
class Half(nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.T


"""


def test_inside_a_module_only_a_precision_that_is_asked_for_counts() -> None:
    check_noop("amp", INSIDE + AFTER, backend="fsdp")
    folded = INSIDE.replace('torch.autocast("cpu", dtype=torch.bfloat16)', "runtime.autocast()")
    check_rewritten("amp", INSIDE + AFTER, folded + AFTER, precision="fp16")


def test_a_scale_that_is_asked_for_keeps_its_updates() -> None:
    use = "    shrunk = scaler.get_scale() < 2\n"
    after = AFTER.replace("model = Net()", "scaler = runtime.scaler(init_scale=8.0)\nmodel = Net()", 1)
    before = BEFORE.replace("GradScaler()", "GradScaler(init_scale=8.0)")
    check_rewritten("amp", before + use, after + "    scaler.update()\n" + use, precision="fp16")


HELD = """
from functools import partial
context = {made}
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    with context{call}:
        loss = runtime.mean(F.cross_entropy(model(x), y))
    runtime.backward(loss)
    runtime.step(optimizer)
"""


@pytest.mark.parametrize(
    ("made", "call", "folded"),
    [
        ('torch.autocast("cuda", torch.bfloat16)', "", "runtime.autocast()"),
        ('partial(torch.autocast, "cuda", dtype=torch.bfloat16)', "()", "runtime.autocast"),
    ],
)
def test_contexts_that_a_name_holds(made: str, call: str, folded: str) -> None:
    before = HELD.format(made=made, call=call)
    check_rewritten("amp", before, HELD.format(made=folded, call=call), precision="bf16")
    check_noop("autocast", before)
    check_noop("autocast", HELD.format(made=folded, call=call))


def test_a_class_that_is_handed_on_is_told() -> None:
    before = HELD.format(made="dict(a=torch.autocast)", call='["a"]("cpu")')
    check_noop("amp", before, ["DST401"], precision="bf16")


def test_a_decorator() -> None:
    start = "@{}\ndef run(model, x):\n    return model(x)\n\n\n"
    before, after = start.format('torch.autocast("cuda")'), start.format("runtime.autocast()")
    check_rewritten("amp", before, after, precision="fp16")


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("amp", NOOPS[case], precision="fp16")
