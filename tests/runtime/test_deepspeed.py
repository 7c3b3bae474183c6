"""The deepspeed backend: programs equal the original's on ZeRO 1, 2 and 3, and what can't work says so."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.pool import Pool
from tests.runtime.programs import PROGRAMS, Model, Original, batches, gap, in_turn, model, train

TOLERANCE = 2e-5  # fp32
FEW = ("optimizer_sgd_momentum", "optimizer_adamw", "optimizer_adagrad", "groups", "norms", "gan", "restored")


def start(stage: int, **options: Any) -> Any:
    from distify import runtime

    runtime.init(backend="deepspeed", zero_stage=stage, **options)
    return runtime


def run_programs(names: list[str], stage: int) -> dict[str, dict[str, Any]]:
    found = {}
    for name in names:
        torch.manual_seed(0)
        expected = PROGRAMS[name](Original)
        torch.manual_seed(0)
        runtime = start(stage)
        try:
            found[name] = gap(PROGRAMS[name](runtime), expected)
        finally:
            runtime.shutdown()
    return found


@pytest.mark.parametrize(
    ("ranks", "stage", "names"),
    [(2, 0, FEW), (2, 1, tuple(PROGRAMS)), (2, 2, in_turn(0)), (2, 3, in_turn(1)), (3, 1, FEW), (3, 3, FEW)],
)
def test_programs_equal_the_original(ranks: int, stage: int, names: tuple[str, ...], pool2: Pool, pool3: Pool) -> None:
    for found in (pool2 if ranks == 2 else pool3).run(run_programs, list(names), stage):
        wrong = {name: places for name, places in found.items() if len(places) > 1 or not places[""] <= TOLERANCE}
        assert not wrong
        assert list(found) == list(names)


def objects(stage: int) -> dict[str, Any]:
    runtime = start(stage)
    m, plain = model(), model()
    optimizer = torch.optim.AdamW([p for n, p in m.named_parameters() if "unused" not in n], 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    held = [id(p) for p in m.parameters()]
    runtime.prepare(m, optimizer)
    copied = copy.deepcopy(m)
    found = {
        "class": type(m) is Model and repr(m) == repr(plain),
        "parameters": [id(p) for p in m.parameters()] == held,
        "groups": {id(p) for g in optimizer.param_groups for p in g["params"]} <= set(held),
        "copied": type(copied) is Model and gap(dict(copied.state_dict()), dict(plain.state_dict())) == {"": 0.0},
        "forward": bool(torch.allclose(copied(torch.ones(2, 6)), m(torch.ones(2, 6)))),
    }
    train(runtime, m, optimizer, 1)
    runtime.step(scheduler)
    found["rate"] = optimizer.param_groups[0]["lr"] == 0.05
    found["hooks"] = not any(copied._forward_hooks.values()) and "zero_grad" not in vars(copied)
    return found


@pytest.mark.parametrize("stage", [1, 3])
def test_objects_stay_what_they_were(stage: int, pool2: Pool) -> None:
    for found in pool2.run(objects, stage):
        assert found == dict.fromkeys(found, True)


def refused(kind: str) -> str:
    runtime = start(2)
    m = model()
    half = [list(m.blocks.parameters()), list(m.head.parameters())]
    objects: dict[str, Any] = {
        "two optimizers": lambda: (m, torch.optim.SGD(half[0], 0.1), torch.optim.Adam(half[1], 0.1)),
        "none": lambda: (m,),
        "lbfgs": lambda: (m, torch.optim.LBFGS(m.parameters())),
        "half": lambda: (m.bfloat16(), torch.optim.SGD(m.parameters(), 0.1)),
        "sparse": lambda: (e := nn.Embedding(5, 3, sparse=True), torch.optim.SGD(e.parameters(), 0.1)),
    }
    try:
        runtime.prepare(*objects[kind]())
    except runtime.state.DistifyError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("two optimizers", "SGD and Adam both update parts of Model"),
        ("none", "no optimizer in this call updates Model"),
        ("lbfgs", "LBFGS searches along one vector"),
        ("half", "is torch.bfloat16"),
        ("sparse", "sparse=True"),
    ],
)
def test_what_an_engine_can_not_take_is_refused_with_the_remedy(kind: str, reason: str, pool2: Pool) -> None:
    for found in pool2.run(refused, kind):
        assert reason in found
        assert "backend='fsdp'" in found or "backend='ddp'" in found


def without_gpu() -> str:
    from distify import runtime
    from distify.runtime.exits import Misconfigured

    try:
        runtime.init(backend="deepspeed", precision="fp16")
    except Misconfigured as error:
        return str(error)
    return "no error"


def test_fp16_needs_a_gpu(pool2: Pool) -> None:
    assert all("needs a GPU" in found and "bf16" in found for found in pool2.run(without_gpu))


def now_and_then(kind: str) -> Any:
    """A layer that is used in every other step: element-wise state without a step count allows it."""

    def run(r: Any) -> Any:
        m = model()
        chosen = [p for n, p in m.named_parameters() if "frozen" not in n]
        optimizer = getattr(torch.optim, kind)(chosen, 0.01, weight_decay=0.1)
        r.prepare(m, optimizer)
        for k, batch in enumerate(batches(4)):
            x, y = r.split(batch)
            optimizer.zero_grad()
            out = m(x)
            if k % 2:
                out = out + F.pad(m.unused(x), (0, 1))
            r.backward(r.mean(F.cross_entropy(out, y)))
            r.step(optimizer)
        return r.state_dict(m)

    expected = run(Original)
    runtime = start(2)
    try:
        return gap(run(runtime), expected)
    except runtime.state.DistifyError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["SGD", "RMSprop"])
def test_parameters_used_now_and_then_are_exact_or_refused(kind: str, pool2: Pool) -> None:
    for found in pool2.run(now_and_then, kind):
        assert len(found) == 1
        assert found[""] <= TOLERANCE
    if kind == "SGD":
        for found in pool2.run(now_and_then, "AdamW"):
            assert "unused.bias, unused.weight got a gradient in some steps" in found


def refused_while_training(kind: str, stage: int) -> str:
    from torch.utils.checkpoint import checkpoint

    runtime = start(stage)
    m = model()
    optimizer = torch.optim.SGD(m.head.parameters() if kind == "added" else m.parameters(), 0.1)
    runtime.prepare(m, optimizer)
    x, y = runtime.split(batches(1)[0])
    try:
        if kind == "added":
            optimizer.add_param_group({"params": list(m.blocks.parameters())})
        for _ in range(2):
            h = m.features(x.clone().requires_grad_())
            out = checkpoint(m.head, h, use_reentrant=True) if kind == "reentrant" else m.head(h)
            runtime.backward(runtime.mean(F.cross_entropy(out + m.head(h), y)))
        runtime.step(optimizer)
    except runtime.state.DistifyError as error:
        return str(error)
    return "no error"


def test_what_would_go_wrong_later_is_refused_then(pool2: Pool) -> None:
    for found in pool2.run(refused_while_training, "added", 1):
        assert "came into SGD after runtime.prepare()" in found
    for found in pool2.run(refused_while_training, "reentrant", 3):
        assert "use_reentrant=False" in found


def masters(stage: int) -> Any:
    """bf16: the weights of the optimizer are the original's, not rounded ones; files hold them in fp32."""
    runtime = start(stage, precision="bf16")
    m, plain = model(width=24), model(width=24)
    optimizer = torch.optim.SGD([p for n, p in m.named_parameters() if "unused" not in n], 0.0)
    runtime.prepare(m, optimizer)
    same = gap(runtime.state_dict(m), dict(plain.state_dict()))
    kinds = {p.dtype for p in m.parameters()}
    x, y = runtime.split((torch.ones(4, 24), torch.zeros(4, dtype=torch.long)))
    out = m(x)  # outside of autocast
    runtime.backward(runtime.mean(F.cross_entropy(out.float(), y)))
    runtime.step(optimizer)
    return (
        same,
        gap(runtime.state_dict(m), dict(plain.state_dict())),
        kinds,
        gap(dict(runtime.clone(m).state_dict()), dict(plain.state_dict())),
    )


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_bf16_keeps_fp32_weights(stage: int, pool2: Pool) -> None:
    for before, after, kinds, copied in pool2.run(masters, stage):
        assert before == after == copied == {"": 0.0}
        assert kinds == {torch.bfloat16}


SCRIPT = """
import torch
from distify import runtime
runtime.init(backend="deepspeed", zero_stage={stage})
print("begin")
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
runtime.prepare(model, optimizer)
x = runtime.split(torch.ones(4, 3))
runtime.backward(runtime.mean(model(x).sum(1).mean()))
runtime.step(optimizer)
print("end")
"""


def test_nothing_but_the_script_prints(tmp_path: Path, pool2: Pool) -> None:
    file = tmp_path / "train.py"
    for stage in (1, 3):
        file.write_text(SCRIPT.format(stage=stage))
        run = pool2.script(file, cwd=tmp_path).check()
        assert run.stdout == "begin\nend\n"
        assert run.others == [""]


def test_every_key_that_changes_arithmetic_is_set() -> None:
    from distify.runtime.backends.deepspeed_load import config

    given = config(2, torch.bfloat16, [1000])
    wanted = {
        "gradient_clipping": 0.0,  # DeepSpeed's default is 1.0
        "gradient_accumulation_steps": 1,
        "train_micro_batch_size_per_gpu": 1,
        "managed_gradient_accumulation": False,
        "prescale_gradients": False,
        "gradient_predivide_factor": 1.0,
        "gradient_allreduce_op": "mean",
        "communication_data_type": "bf16",  # that of the gradients
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    assert {key: given[key] for key in wanted} == wanted
    assert given["bf16"]["enabled"]
    assert not given["fp16"]["enabled"]
    assert given["fp16"]["loss_scale"] == 1.0  # the runtime scales
    zero = given["zero_optimization"]
    assert not any(zero[key] for key in zero if "quantized" in key)
