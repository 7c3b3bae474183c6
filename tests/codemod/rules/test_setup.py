"""The import and the init call: once, before what matters, with the options given and no others."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import HEAD, TRAINING, check_noop, check_rewritten

PLAIN = HEAD.replace("from distify import runtime\n", "").replace("runtime.init()\n", "")
CALL = "runtime.init()\ndata ="


def plain(start: str = "data =", import_line: str = "from distify import runtime\n") -> str:
    imports = "from torch.utils.data import DataLoader, TensorDataset\n"
    return PLAIN.replace(imports, imports + import_line).replace("data =", start) + TRAINING


def converted(arguments: str) -> str:
    return HEAD.replace("runtime.init()", f"runtime.init({arguments})") + TRAINING


def test_import_and_call() -> None:
    check_rewritten("setup", PLAIN + TRAINING, plain(CALL), whole=True)


def test_options_in_order() -> None:
    call = 'runtime.init(backend="deepspeed", precision="fp16", accumulate=4, batch="per-device", zero_stage=3)\ndata ='
    options = {"zero_stage": 3, "batch": "per-device", "accumulate": 4, "precision": "fp16", "backend": "deepspeed"}
    check_rewritten("setup", PLAIN + TRAINING, plain(call), whole=True, **options)


def test_alias_where_the_name_is_taken() -> None:
    before = PLAIN + "runtime = 3\n" + TRAINING
    after = plain("distify_runtime.init()\ndata =", "from distify import runtime as distify_runtime\n")
    check_rewritten("setup", before, after.replace("loader =", "runtime = 3\nloader =", 1), whole=True)


def test_before_the_seed_in_main() -> None:
    body = """
    seed = 3
    {init}torch.manual_seed(seed)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.zeros(2, 4)).sum()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
"""
    top = PLAIN[: PLAIN.index("data =")] + "def main():"
    after = top.replace("TensorDataset\n", "TensorDataset\nfrom distify import runtime\n")
    check_rewritten(
        "setup", top + body.replace("{init}", ""), after + body.replace("{init}", "runtime.init()\n    "), whole=True
    )


@pytest.mark.parametrize(
    ("old", "options", "new"),
    [
        ("", {"backend": "fsdp"}, 'backend="fsdp"'),
        ('backend="ddp"', {"backend": "fsdp"}, 'backend="fsdp"'),
        ("backend='ddp', accumulate=2", {"accumulate": 8}, "backend='ddp', accumulate=8"),
        ('backend="ddp"', {"precision": "bf16"}, 'backend="ddp", precision="bf16"'),
        ("accumulate=4", {"accumulate": 1}, "accumulate=1"),
        ("zero_stage=3, backend='fsdp'", {"accumulate": 4}, "backend='fsdp', accumulate=4, zero_stage=3"),
        (
            "zero_stage=3,\n    backend='fsdp'",
            {"accumulate": 4},
            "zero_stage=3,\n    backend='fsdp',\n    accumulate=4",
        ),
        ("zero_stage=True", {"zero_stage": 1}, "zero_stage=1"),
        ("backend='fsdp', shard_size=8", {"backend": "ddp"}, 'backend="ddp"'),
        ("backend='fsdp'", {"shard_size": 8}, "backend='fsdp', shard_size=8"),
        ("backend='fsdp', offload='cpu'", {"backend": "deepspeed"}, 'backend="deepspeed"'),
        ("", {"checkpoint_activations": True}, "checkpoint_activations=True"),
        ("checkpoint_activations=False", {"checkpoint_activations": True}, "checkpoint_activations=True"),
        ("backend='fsdp', meta_init=True", {"backend": "ddp"}, 'backend="ddp"'),
        ("backend=os.environ['B']", {"backend": "ddp"}, 'backend="ddp"'),
    ],
)
def test_an_argument_changes(old: str, options: dict[str, str | int], new: str) -> None:
    check_rewritten("setup", converted(old), converted(new), whole=True, **options)


@pytest.mark.parametrize(
    ("old", "options"),
    [
        ("", {}),
        ('backend="fsdp", accumulate=4', {}),
        ("backend='fsdp'", {"backend": "fsdp"}),
        ('precision="fp16", accumulate=4', {"accumulate": 4}),
        ("backend=os.environ['B']", {"accumulate": 1}),
    ],
)
def test_nothing_differs(old: str, options: dict[str, str | int]) -> None:
    if options == {"accumulate": 1}:
        old += ", accumulate=1"
    check_noop("setup", converted(old), whole=True, **options)


LIBRARY = """\
import torch
{line}

def fit(batches):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def test_a_file_that_no_run_starts_from_has_no_call() -> None:
    before, after = LIBRARY.format(line=""), LIBRARY.format(line="from distify import runtime\n")
    check_rewritten("setup", before, after, whole=True, backend="fsdp")


SCALED = """\
scaler = torch.cuda.amp.GradScaler({switch})
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=torch.float16):
    loss = model(torch.zeros(2, 4)).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


@pytest.mark.parametrize(
    ("switch", "options", "arguments"),
    [
        ("", {"backend": "fsdp"}, 'backend="fsdp", precision="fp16"'),
        ("enabled=True", {"backend": "deepspeed"}, 'backend="deepspeed", precision="fp16"'),
        ("", {"backend": "fsdp", "precision": "bf16"}, 'backend="fsdp", precision="bf16"'),
        ("enabled=bool(os.environ)", {"backend": "fsdp"}, 'backend="fsdp"'),
        ("", {"backend": "ddp"}, 'backend="ddp"'),
    ],
)
def test_precision_of_a_script_that_scales(switch: str, options: dict[str, str], arguments: str) -> None:
    before = PLAIN + SCALED.format(switch=switch)
    after = plain(f"runtime.init({arguments})\ndata =").replace(TRAINING, SCALED.format(switch=switch))
    check_rewritten("setup", before, after, whole=True, **options)


MIXED = """
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda"{enabled})
for x, y in DataLoader(data, batch_size=4):
    with torch.autocast("cuda"{dtype}{enabled}):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""


@pytest.mark.parametrize(
    ("dtype", "enabled", "written"),
    [
        ("", "", "fp16"),
        (", dtype=torch.float16", "", "fp16"),
        (", dtype=torch.bfloat16", "", "bf16"),
        (", torch.bfloat16", "", "bf16"),
        (", dtype=TYPE", "", ""),
        ("", ", enabled=bool(SWITCH)", ""),
        ("", ", enabled=False", ""),
    ],
)
def test_the_precision_of_a_script_whose_own_gives_way(dtype: str, enabled: str, written: str) -> None:
    own = f', precision="{written}"' if written else ""
    body = MIXED.format(dtype=dtype, enabled=enabled)
    after = HEAD.replace("init()", f'init(backend="fsdp"{own})') + body
    check_rewritten("setup", HEAD + body, after, whole=True, backend="fsdp")
    kept = HEAD.replace("init()", 'init(backend="ddp")') + body
    check_rewritten("setup", kept, after, whole=True, backend="fsdp")
    check_noop("setup", kept, whole=True, backend="ddp")
