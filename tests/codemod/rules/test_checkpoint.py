"""Files and states of models and optimizers go through the runtime; everything else stays."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

TRAIN = """
import copy
import json
from torch import save as write
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(3):
    for x, y in DataLoader(data, batch_size=4):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    {inside}
{after}
"""


def train(after: str = "pass", inside: str = "pass") -> str:
    return TRAIN.format(after=after, inside=inside)


REWRITES = {
    "model": ('torch.save(model.state_dict(), "a.pt")', 'runtime.save(runtime.state_dict(model), "a.pt")'),
    "dictionary": (
        'torch.save({"m": model.state_dict(), "o": optimizer.state_dict(), "s": scheduler.state_dict()}, f="a.pt")',
        'runtime.save({"m": runtime.state_dict(model), "o": runtime.state_dict(optimizer), '
        '"s": scheduler.state_dict()}, f="a.pt")',
    ),
    "imported": ('write(model.state_dict(), "a.pt")', 'runtime.save(runtime.state_dict(model), "a.pt")'),
    "whole": ('torch.save(model, "a.pt")', 'runtime.save(model, "a.pt")'),
    "load": ('state = torch.load("a.pt", map_location="cpu")', 'state = runtime.load("a.pt", map_location="cpu")'),
    "restore": (
        'model.load_state_dict(torch.load("a.pt"), strict=False)',
        'runtime.load_state_dict(model, runtime.load("a.pt"), strict=False)',
    ),
    "restore an optimizer": (
        'optimizer.load_state_dict(torch.load("a.pt")["o"])',
        'runtime.load_state_dict(optimizer, runtime.load("a.pt")["o"])',
    ),
    "part of a model": ("state = model.fc.state_dict()", "state = runtime.state_dict(model.fc)"),
    "copy": ("twin = copy.deepcopy(model)", "twin = runtime.clone(model)"),
    "copy of a state": (
        "best = copy.deepcopy(model.state_dict())",
        "best = copy.deepcopy(runtime.state_dict(model))",
    ),
    "data": ('torch.save([1, 2], "a.pt")', 'runtime.save([1, 2], "a.pt")'),
}

NOOPS = {
    "scheduler": "state = scheduler.state_dict()\nscheduler.load_state_dict(state)",
    "converted": 'runtime.save(runtime.state_dict(model), "a")\nruntime.load_state_dict(model, runtime.load("a"))',
    "copied": "twin = runtime.clone(model)",
    "copy of a list": "twin = copy.deepcopy([1, 2])",
    "copy of a setting": "twin = copy.deepcopy(optimizer.param_groups[0]['lr'])",
    "json": 'text = json.dumps({"a": 1})\njson.loads(text)',
    "a method of the script's own": """
class Meter:
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        return state


Meter().load_state_dict(Meter().state_dict())
""",
    "a save of the script's own": """
class Store:
    def save(self, a):
        return a


Store().save(1)
""",
    "numbers of parameters": "print(sum(p.numel() for p in model.parameters()))",
    "super": """
class Named(nn.Linear):
    def state_dict(self, *args, **kwargs):
        return super().state_dict(*args, **kwargs)
""",
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("checkpoint", train(before), train(after))


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("checkpoint", train(NOOPS[case]))


def test_a_best_state_that_is_kept() -> None:
    before = train("print(len(best))", "best = model.state_dict()")
    after = train("print(len(best))", "best = runtime.state_dict(model)")
    check_rewritten("checkpoint", before, after, ["DST703"], again=[])


def test_a_state_of_that_name_in_another_function() -> None:
    build = "def read(state):\n    return len(state)\n\n\nread([])"
    before, after = train(build, "state = model.state_dict()"), train(build, "state = runtime.state_dict(model)")
    check_rewritten("checkpoint", before, after)


@pytest.mark.parametrize("use", ["pass", "print(1)"])
def test_a_state_that_is_used_at_once(use: str) -> None:
    inside = "state = {call}\n    torch.save(state, 'a.pt')"
    after = "state = {call}\n    runtime.save(state, 'a.pt')"
    check_rewritten(
        "checkpoint",
        train(use, inside.format(call="model.state_dict()")),
        train(use, after.format(call="runtime.state_dict(model)")),
    )


@pytest.mark.parametrize(("backend", "findings"), [("ddp", []), ("fsdp", ["DST702"]), ("deepspeed", ["DST702"])])
def test_a_whole_model_under_a_sharded_backend(backend: str, findings: list[str]) -> None:
    before, after = REWRITES["whole"]
    check_rewritten("checkpoint", train(before), train(after), findings, again=[], backend=backend)


WRAPPED = """
model = nn.DataParallel(Net())
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=4):
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
{last}
"""


def test_a_wrapper_that_is_pickled() -> None:
    before, after = "torch.save(model, 'f')", "runtime.save(model, 'f')"
    check_rewritten("checkpoint", WRAPPED.format(last=before), WRAPPED.format(last=after), ["DST702"], again=[])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.save(model.state_dict(), 'f')", "runtime.save(runtime.state_dict(model, prefix=\"module.\"), 'f')"),
        ("torch.save(model.module.state_dict(), 'f')", "runtime.save(runtime.state_dict(model.module), 'f')"),
        (
            "model.load_state_dict(torch.load('f'))",
            "runtime.load_state_dict(model, runtime.load('f'), prefix=\"module.\")",
        ),
    ],
)
def test_keys_of_data_parallel_stay(before: str, after: str) -> None:
    check_rewritten("checkpoint", WRAPPED.format(last=before), WRAPPED.format(last=after))


SHARDED = {
    "items": ("{key: value.clone() for key, value in STATE.items()}", True),
    "a key": ("print(STATE['fc.weight'].norm())", True),
    "keys of a name": ("state = STATE\nfor key in state:\n    print(state[key])", True),
    "a function that takes it apart": ("def show(state):\n    print(state['fc.bias'])\nshow(STATE)", True),
    "a function that writes it": (
        "def write_to(state, path):\n    torch.save(state, path)\nwrite_to(STATE, 'a.pt')",
        False,
    ),
    "a file": ("state = {'model': STATE}\ntorch.save(state, 'a.pt')", False),
    "a copy": ("best = copy.deepcopy(STATE)\nmodel.load_state_dict(best)", False),
}


@pytest.mark.parametrize("case", SHARDED)
def test_single_tensors_of_a_sharded_model_stay_on_their_device(case: str) -> None:
    text, apart = SHARDED[case]
    before = train(text.replace("STATE", "model.state_dict()"))
    after = before.replace("model.state_dict()", f"runtime.state_dict(model{', host=False' if apart else ''})")
    after = after.replace("torch.save", "runtime.save").replace(
        "model.load_state_dict(", "runtime.load_state_dict(model, "
    )
    check_rewritten("checkpoint", before, after, backend="fsdp")
    check_rewritten("checkpoint", before, after.replace(", host=False", ""), backend="ddp")
