"""Every code of the catalogue is triggered by a script, and its texts say what a user needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distify.codemod import rules
from distify.codemod.codes import CODES, OF_CHECK, Code
from distify.codemod.facts import analyse
from distify.codemod.findings import Finding
from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

from .facts.snippets import DATA, HEAD, script

GAME = """
for episode in range(3):
    state, logs, done = env.reset(), [], False
    while not done:
        dist = torch.distributions.Categorical(logits=model(torch.as_tensor(state)))
        action = dist.sample()
        logs.append(dist.log_prob(action))
        state, reward, done, _ = env.step(action.item())
    loss = -torch.stack(logs).sum()
    loss.backward()
    opt.step()
"""
WHOLE = """
for epoch in range(3):
    out = model(points)
    loss = F.cross_entropy({})
    loss.backward()
    opt.step()
"""
MODEL = "model = Net()\nopt = optim.SGD(model.parameters(), lr=0.1)\npoints, kinds = torch.randn(9, 4), torch.zeros(9).long()\n"
FORWARD = "class Other(Net):\n    def forward(self, x):\n        {}\n"
BUILT = "model = Other()\nopt = optim.SGD(model.parameters(), lr=0.1)"
STEP = "loss = F.cross_entropy(out, y)\nloss.backward()\nopt.step()\n"
HALF = "with torch.autocast('cuda'):\n    loss = F.cross_entropy(out, y)\n"
SCALER = "scaler = torch.amp.GradScaler()"
PACKED = "h = torch.nn.utils.rnn.pack_padded_sequence(x, n)\nh, _ = nn.utils.rnn.pad_packed_sequence(fix(h))"


def inside(text: str, before: str = "") -> str:
    """A script whose model's forward begins with some lines."""
    return script("", head=FORWARD.format(text.replace("\n", "\n        ")), before=f"{before}\n{BUILT}")


def whole(loss: str, before: str = "", loop: str = WHOLE) -> str:
    """A script without batches."""
    return HEAD + MODEL + before + loop.format(loss)


SAMPLES: dict[str, str | tuple[str, Options]] = {
    "DST101": script(""),
    "DST102": script(
        "", before="all_loaders = [loader, loader]\nfor batches in zip(*all_loaders):\n    model(batches[0][0])"
    ),
    "DST103": script("i = torch.randint(0, 9, (5,))\nmodel(points[i])", before="points = torch.randn(9, 4)"),
    "DST104": script("noise = torch.randn(x.size(0), 4)"),
    "DST105": script("noise = torch.randn(4, x.size(0)).t() + x"),
    "DST107": script("", head="import torch.distributed as dist\ndist.init_process_group('gloo')"),
    "DST108": script("z = out.squeeze()"),
    "DST110": script("x[0] = 0"),
    "DST111": inside("return self.fc(x) @ self.fc(x).t()"),
    "DST112": HEAD + "from torchvision.datasets import MNIST\nMNIST('.', download=True)\n" + script("")[len(HEAD) :],
    "DST113": HEAD
    + "class Own(Dataset):\n    def __getitem__(self, i):\n        return torch.randn(4), 0\n"
    + "loader = DataLoader(Own(), batch_size=7)\n"
    + DATA.replace(DATA.splitlines()[1], "")
    + "for x, y in loader:\n    out = model(x)\n    loss = F.cross_entropy(out, y)\n    loss.backward()\n    opt.step()\n",
    "DST114": script("print(torch.stack([out, out], dim=1).permute(1, 0, 2).reshape(-1, 3))"),
    "DST115": script("z = out.cumsum(0)"),
    "DST116": script(
        "out = model(x, y)",
        head="class Other(Net):\n    def forward(self, x, y):\n        z = y.clone()\n        z[z > 1] = 1\n"
        "        return F.cross_entropy(self.fc(x), z, ignore_index=-1)",
        before=BUILT,
        step="out.backward()\nopt.step()",
    ).replace("    out = model(x)\n", ""),
    "DST117": script("rows += out", before="rows = 0"),
    "DST118": script(
        "",
        after=(MODEL + WHOLE)
        .replace("{}", "out, kinds")
        .replace("model", "net")
        .replace("opt ", "other ")
        .replace("opt.", "other."),
    ),
    "DST119": inside("self.last = self.fc(x).mean(0)\nreturn self.fc(x) + self.last", "").replace(
        "class Other(Net):\n",
        "class Other(Net):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('last', torch.zeros(3))\n\n",
    ),
    "DST120": inside("return self.fc(mixed(x))", "").replace(
        "import copy\n", "import copy\nfrom elsewhere import mixed\n"
    ),
    "DST121": inside("return self.fc(x.softmax(self.over))", ""),
    "DST122": script(PACKED, before="n = torch.tensor([4])", head="def fix(h):\n    print(h)\n    return h"),
    "DST123": inside("return self.fc(x + torch.randn_like(x))"),
    "DST124": inside("x.requires_grad_()\ng = torch.autograd.grad(self.fc(x).mean(), x)[0]\nreturn self.fc(x + g)"),
    "DST125": inside("return self.fc(x) if torch.rand(1).item() < 0.5 else x[:, :3]"),
    "DST126": inside("x = self.fc(x)\nif x.mean() > 0:\n    x = -x\nreturn x"),
    "DST130": script("", before="rng = np.random.default_rng()"),
    "DST131": script(
        "", before="from torchvision.datasets import MNIST\nfor x in MNIST('.', download=True):\n    pass"
    ),
    "DST132": script("", before="main = not torch.distributed.is_initialized()"),
    "DST140": whole("out, kinds"),
    "DST141": whole("out[mask], kinds[mask]", "mask = torch.arange(9) < 5\n"),
    "DST142": HEAD + MODEL + "import gym\nenv = gym.make('CartPole-v1')\n" + GAME,
    "DST143": whole("torch.func.functional_call(model, {}, (points,)), kinds"),
    "DST144": "from transformers import Trainer\nTrainer(model=None).train()\n",
    "DST145": script("", head="import torch.multiprocessing as mp\nmp.spawn(print)"),
    "DST146": script("", head="import torch_xla.core.xla_model as xm\nxm.mark_step()"),
    "DST202": script("", before="opt = optim.SGD(things(), lr=0.1)"),
    "DST203": (
        script("").replace("optim.SGD(model.parameters(), lr=0.1)", "optim.LBFGS(model.parameters())"),
        Options(backend="fsdp"),
    ),
    "DST204": (
        script("", step="loss = F.cross_entropy(out, y)\nloss.backward()\nif i % 2 == 0:\n    opt.step()"),
        Options(accumulate=2),
    ),
    "DST205": (
        script(
            "",
            step="loss = F.cross_entropy(out, y)\nif train:\n    loss.backward()\n    opt.step()",
            before="train = True",
        ),
        Options(accumulate=2),
    ),
    "DST206": (script("", step=STEP + "print(model.fc.weight.grad.norm())"), Options(backend="deepspeed")),
    "DST207": (
        script(
            "",
            step=STEP + "warm.step()",
            before="warm = optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=len(loader))",
        ),
        Options(accumulate=2),
    ),
    "DST208": (
        script(
            "",
            step="def closure():\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    return loss\nopt.step(closure)",
        ),
        Options(accumulate=2),
    ),
    "DST209": HEAD
    + DATA
    + "def build():\n    return optim.SGD(model.parameters(), lr=0.1)\nfor x, y in loader:\n    F.cross_entropy(model(x), y).backward()\n    build().step()\n",
    "DST210": script("", step=STEP.replace("backward()", "backward(torch.ones(()), True)")),
    "DST211": (script("", step=STEP + "F.cross_entropy(model(x), y).backward()\nopt.step()"), Options(accumulate=2)),
    "DST212": (script("", step=STEP.replace("(out, y)", "(out, y).sqrt()")), Options(accumulate=2)),
    "DST213": (
        script(
            "",
            step="loss = F.cross_entropy(out, y)\nloss.backward()\nnorm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nopt.step()\nprint(norm)",
        ),
        Options(accumulate=2),
    ),
    "DST214": (
        HEAD
        + MODEL
        + "for i in range(0, 9, 3):\n    out = model(points[i:i + 3])\n    loss = F.cross_entropy(out, kinds[i:i + 3])\n    loss.backward()\n    opt.step()\n",
        Options(accumulate=2),
    ),
    "DST215": (script("", step=STEP.replace("(out, y)", "(out, y, reduction='sum').sqrt()")), Options(accumulate=2)),
    "DST216": (
        script(
            "",
            step="loss = F.cross_entropy(out, y)\nloss.backward()\nfor p in model.parameters():\n    p.data -= 0.1 * p.grad",
        ),
        Options(backend="fsdp"),
    ),
    "DST217": script(
        "", step="loss = F.cross_entropy(out, y)\nloss.backward()\nif int(input()) % 4 == 0:\n    opt.step()"
    ),
    "DST218": (
        script(
            "",
            before="plan = optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 2)",
            step=STEP + "plan.step(len(x) * 0 + loss.item())",
        ),
        Options(accumulate=2),
    ),
    "DST301": script("", before="model = nn.DataParallel(**options)"),
    "DST309": script("", before="fast = torch.compile(model, fullgraph=True)"),
    "DST305": script("", before="model = nn.DataParallel(model)"),
    "DST306": inside("return self.fc(x).to('cuda:1')").replace("model = Other()", "model = Other().to('cuda:0')"),
    "DST307": script("out.register_hook(print)"),
    "DST308": (
        script("", step=STEP + "for p in model.parameters():\n    p.data.clamp_(-1, 1)\n    model(x)"),
        Options(backend="fsdp"),
    ),
    "DST401": script("", step=HALF + "loss.backward()\nopt.step()"),
    "DST402": (
        script("", before=SCALER, step=HALF + "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update(2.0)"),
        Options(precision="fp16"),
    ),
    "DST403": script("", before="model.half()"),
    "DST404": script("", before="from apex import amp\nmodel, opt = amp.initialize(model, opt)"),
    "DST405": (inside("return self.fc(x.masked_fill(x == 0, -1e9))"), Options(precision="fp16")),
    "DST406": (
        script(
            "",
            step="loss = F.cross_entropy(out, y)\nloss.backward()\n"
            "if nn.utils.clip_grad_norm_(model.parameters(), 1.0).isnan():\n    break\nopt.step()",
        ),
        Options(precision="fp16"),
    ),
    "DST601": script("if time.time() - start > 9:\n    break", before="import time\nstart = time.time()"),
    "DST603": script(
        "",
        step="try:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    opt.step()\nexcept RuntimeError:\n    continue",
    ),
    "DST604": script("", head="from torch.nn import *"),
    "DST702": (script("", after="torch.save(model, 'm.pt')"), Options(backend="fsdp")),
    "DST703": script("best = model.state_dict()", after="print(best)"),
    "DST801": script("", after="np.save('w.npy', np.zeros(3))"),
    "DST802": script("", after="done = np.save('w.npy', np.zeros(3))"),
    "DST803": script("", before="import tempfile\nfolder = tempfile.mkdtemp()"),
    "DST900": script("z = 1  # distify: ignore[DST999]"),
    "DST903": (
        script("z = torch.func.functional_call(model, dict(model.named_parameters()), (x,))"),
        Options(backend="fsdp"),
    ),
    "DST904": HEAD + "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n" + script("")[len(HEAD) :],
}

OF_THE_TOOL = ("DST902", "DST905")  # what no text triggers: an odd parser (below), a lack of time (test_budget.py)


def triggered(source: str, options: Options) -> dict[str, Finding | None]:
    """The codes of all findings and edits of a conversion, with the findings."""
    edits, found = rules.run(analyse(source, "train.py"), options)
    result = rewrite_source(source.encode(), "train.py", options)
    codes: dict[str, Finding | None] = {edit.code: None for edit in edits if edit.code}
    return {**codes, **{item.code: item for item in (*found, *result.findings)}}


@pytest.mark.parametrize("code", [code for code in CODES if code not in OF_THE_TOOL and code not in OF_CHECK])
def test_triggered(code: str) -> None:
    sample = SAMPLES[code]
    source, options = sample if isinstance(sample, tuple) else (sample, Options())
    found = triggered(source, options)
    assert code in found, sorted(found)


def test_a_source_that_the_parser_does_not_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is known; what the parser drops is put in again (form feeds)."""
    monkeypatch.setattr("distify.codemod.editing.locate.FORM_FEED", re.compile("never"))
    assert "DST902" in triggered("import torch\n\f" + script(""), Options())


def test_samples_are_of_the_catalogue() -> None:
    assert {*SAMPLES, *OF_THE_TOOL} == set(CODES) - OF_CHECK


def test_every_refusal_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| DST")}
    assert set(rows) == {entry.code for entry in CODES.values() if entry.level == "error"} - OF_CHECK
    for code, row in rows.items():
        assert CODES[code].remedy in row
        assert CODES[code].why in row


@pytest.mark.parametrize("entry", [entry for entry in CODES.values() if entry.level != "note"], ids=lambda e: e.code)
def test_what_is_wrong_has_a_reason_and_a_remedy(entry: Code) -> None:
    assert entry.why
    assert entry.remedy
