"""One prepare call where models and optimizers are built, after what settles them and before what runs them."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source
from tests.codemod.rules.checks import check_noop, check_rewritten, outcome, script

TRAIN = """
for x, y in DataLoader(data, batch_size=4):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
BUILD = "model = Net()\noptimizer = optim.SGD(model.parameters(), lr=0.1)"
CALL = "\nruntime.prepare(model, optimizer)"

REWRITES = {
    "built": (BUILD, BUILD + CALL),
    "scheduler after it": (
        BUILD + "\nscheduler = optim.lr_scheduler.StepLR(optimizer, 1)",
        BUILD + CALL + "\nscheduler = optim.lr_scheduler.StepLR(optimizer, 1)",
    ),
    "moved after it": (BUILD + "\nmodel.to('cpu')", BUILD + "\nmodel.to('cpu')" + CALL),
    "assigned anew after it": (BUILD + "\nmodel = model.cpu()", BUILD + "\nmodel = model.cpu()" + CALL),
    "moved by a condition": (
        BUILD + "\nif torch.cuda.is_available():\n    model.cuda()\nprint(1)",
        BUILD + "\nif torch.cuda.is_available():\n    model.cuda()" + CALL + "\nprint(1)",
    ),
    "initialised after it": (
        BUILD + "\nnn.init.zeros_(model.fc.bias)\nstart = 0",
        BUILD + "\nnn.init.zeros_(model.fc.bias)" + CALL + "\nstart = 0",
    ),
    "initialised by a function": (
        BUILD + "\nmodel.apply(lambda m: None)",
        BUILD + "\nmodel.apply(lambda m: None)" + CALL,
    ),
    "frozen after it": (
        BUILD + "\nfor p in model.fc.parameters():\n    p.requires_grad = True",
        BUILD + "\nfor p in model.fc.parameters():\n    p.requires_grad = True" + CALL,
    ),
    "moved after it has run": (
        BUILD + "\nprint(model(torch.zeros(1, 4)))\nmodel.cpu()",
        BUILD + CALL + "\nprint(model(torch.zeros(1, 4)))\nmodel.cpu()",
    ),
    "given away before it is moved": (
        "from torchsummary import summary\n" + BUILD + "\nsummary(model, (4,))\nmodel.cpu()",
        "from torchsummary import summary\n" + BUILD + CALL + "\nsummary(model, (4,))\nmodel.cpu()",
    ),
    "built again in a branch before it": (
        BUILD + "\nif os.path.exists('m.pt'):\n    model = torch.load('m.pt')\n"
        "    optimizer = optim.SGD(model.parameters(), lr=0.1)\nprint(1)",
        BUILD + "\nif os.path.exists('m.pt'):\n    model = torch.load('m.pt')\n"
        "    optimizer = optim.SGD(model.parameters(), lr=0.1)" + CALL + "\nprint(1)",
    ),
    "branches": (
        """
model = Net()
if os.environ.get("ADAM"):
    optimizer = optim.Adam(model.parameters())
elif os.environ.get("RMS"):
    optimizer = optim.RMSprop(model.parameters())
else:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
""",
        """
model = Net()
if os.environ.get("ADAM"):
    optimizer = optim.Adam(model.parameters())
elif os.environ.get("RMS"):
    optimizer = optim.RMSprop(model.parameters())
else:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
runtime.prepare(model, optimizer)
""",
    ),
    "two of them": (
        "other = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)\n" + BUILD,
        "other = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)\n"
        + BUILD
        + "\nruntime.prepare(other, model, second, optimizer)",
    ),
    "two optimizers of one model": (
        BUILD + "\nsecond = optim.Adam(model.parameters())",
        BUILD + "\nsecond = optim.Adam(model.parameters())\nruntime.prepare(model, optimizer, second)",
    ),
    "a prepare call of another one": (
        "other = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)\n" + BUILD + CALL,
        "other = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)\n"
        + BUILD
        + "\nruntime.prepare(other, second, model, optimizer)",
    ),
    "an optimizer added after it": (
        BUILD + CALL + "\nother = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)",
        BUILD
        + CALL
        + "\nother = Net()\nsecond = optim.SGD(other.parameters(), lr=0.1)\nruntime.prepare(other, second)",
    ),
    "of a library": (
        "from lion_pytorch import Lion\nmodel = Net()\noptimizer = Lion(model.parameters(), lr=0.1)",
        "from lion_pytorch import Lion\nmodel = Net()\noptimizer = Lion(model.parameters(), lr=0.1)" + CALL,
    ),
    "of a library, groups": (
        "import bnb\nmodel = Net()\noptimizer = bnb.optim.Adam8bit([{'params': model.fc.parameters()}])",
        "import bnb\nmodel = Net()\noptimizer = bnb.optim.Adam8bit([{'params': model.fc.parameters()}])" + CALL,
    ),
    "of a library, given the model": (
        "import timm\nmodel = Net()\noptimizer = timm.optim.create_optimizer_v2(model, opt='sgd')"
        "\nfor i in range(1):\n    optimizer.zero_grad()",
        "import timm\nmodel = Net()\noptimizer = timm.optim.create_optimizer_v2(model, opt='sgd')"
        + CALL
        + "\nfor i in range(1):\n    optimizer.zero_grad()",
    ),
    "a scheduler and an average of a library": (
        "from more import Warmup, Average\n" + BUILD + "\nwarmup, average = Warmup(optimizer), Average(model)\n"
        "warmup.step()\naverage.step()",
        "from more import Warmup, Average\n"
        + BUILD
        + CALL
        + "\nwarmup, average = Warmup(optimizer), Average(model)\nwarmup.step()\naverage.step()",
    ),
    "one of several, by a variable": (
        "nets = {'a': Net(), 'b': Net()}\nfor name in nets:\n    model = nets[name]\n"
        "    second = optim.SGD(nets[name].parameters(), lr=0.1)\n    second.step()\n" + BUILD,
        "nets = {'a': Net(), 'b': Net()}\nfor name in nets:\n    model = nets[name]\n"
        "    second = optim.SGD(nets[name].parameters(), lr=0.1)\n    runtime.prepare(nets[name], second)\n"
        "    second.step()\n" + BUILD + CALL,
    ),
    "modules in a list that a model keeps": (
        "model = Net()\nmodel.more = [nn.Linear(2, 2) for _ in range(2)]\nparams = list(model.parameters())\n"
        "for part in model.more:\n    params += list(part.parameters())\noptimizer = optim.SGD(params, lr=0.1)",
        "model = Net()\nmodel.more = [nn.Linear(2, 2) for _ in range(2)]\nparams = list(model.parameters())\n"
        "for part in model.more:\n    params += list(part.parameters())\noptimizer = optim.SGD(params, lr=0.1)"
        "\nruntime.prepare(*model.more, model, optimizer)",
    ),
    "on one line": (
        "model = Net(); optimizer = optim.SGD(model.parameters(), lr=0.1); start = 0",
        BUILD + CALL + "\nstart = 0",
    ),
}

NOOPS = {
    "prepared": BUILD + CALL,
    "prepared after a move": BUILD + "\nmodel.cpu()" + CALL,
    "prepared under a condition": BUILD + "\nif len(data):\n    runtime.prepare(model, optimizer)",
    "prepared in two calls": BUILD + "\nruntime.prepare(model)\nruntime.prepare(optimizer)",
    "prepared after branches": """
model = Net()
if os.environ.get("ADAM"):
    optimizer = optim.Adam(model.parameters())
else:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
runtime.prepare(model, optimizer)
""",
}


@pytest.mark.parametrize("case", REWRITES)
def test_rewritten(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("prepare", before + TRAIN, after + TRAIN)


@pytest.mark.parametrize("case", NOOPS)
def test_noop(case: str) -> None:
    check_noop("prepare", NOOPS[case] + TRAIN)


def test_attributes() -> None:
    text = """
class Trainer:
    def __init__(self):
        self.net = Net()
        self.opt = optim.SGD(self.net.parameters(), lr=0.1)
{call}        self.epoch = 0

    def fit(self, batches):
        for x, y in batches:
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.opt.step()


Trainer().fit(DataLoader(data, batch_size=4))
"""
    after = text.format(call="        runtime.prepare(self.net, self.opt)\n")
    check_rewritten("prepare", text.format(call=""), after)


def test_two_phases_of_one_model() -> None:
    second = "\noptimizer = optim.Adam(model.parameters())"
    after = BUILD + CALL + TRAIN + second + "\nruntime.prepare(optimizer)" + TRAIN
    check_rewritten("prepare", BUILD + TRAIN + second + TRAIN, after)


def test_two_phases_of_two_models() -> None:
    second = BUILD.replace("SGD", "RMSprop")
    after = BUILD + CALL + TRAIN + second + CALL + TRAIN
    check_rewritten("prepare", BUILD + TRAIN + second + TRAIN, after)


def test_an_optimizer_of_unknown_parameters_is_refused() -> None:
    build = BUILD.replace("model.parameters()", "os.parameters()") + "\nother = optim.SGD(model.parameters(), lr=0.1)"
    facts = [item.code for item in outcome("prepare", script(build + TRAIN), Options())[1]]
    assert facts in ([], ["DST202"])
    result = rewrite_source(script(build + TRAIN).encode(), "train.py", Options())
    assert "DST202" in [item.code for item in result.findings if item.level == "error"]


IN_PLACE = {
    "a call's argument": ("train(model, {})", "model", "model"),
    "a method's argument": ("opts = []\nopts.append({})\ntrain(model, opts[0])", "model", "model"),
    "an expression": ("nets = [model]\ntrain(nets[0], {})", "nets[0]", "nets[0]"),
}
TRAINED = """
model = Net()


def train(net, optimizer):
    for x, y in DataLoader(data, batch_size=4):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


"""


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_optimizer_without_a_name_is_prepared_where_it_is_built(name: str) -> None:
    line, model, named = IN_PLACE[name]
    built = f"optim.SGD({model}.parameters(), lr=0.1)"
    check_rewritten(
        "prepare", TRAINED + line.format(built), TRAINED + line.format(f"runtime.prepare({named}, {built})")
    )


LAZY = """
class Trainer:
    def __init__(self):
        self.model = Net()

    @DECORATOR
    def opt(self):
        return optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in DataLoader(data, batch_size=4):
FIRST
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.opt.step()


Trainer().fit()
"""


@pytest.mark.parametrize("decorator", ["property", "functools.cached_property", "cached_property"])
def test_an_optimizer_that_a_property_builds(decorator: str) -> None:
    head = "import functools\nfrom functools import cached_property\n"
    text = head + LAZY.replace("DECORATOR", decorator).replace("FIRST", "            self.opt.zero_grad()")
    call = "optim.SGD(self.model.parameters(), lr=0.1)"
    check_rewritten("prepare", text, text.replace(call, f"runtime.prepare(self.model, {call})"))


def test_an_optimizer_that_a_property_builds_after_the_model_has_run() -> None:
    text = "from functools import cached_property\n" + LAZY.replace("DECORATOR", "cached_property")
    check_noop("prepare", text.replace("FIRST", "            pass"), ["DST209"])


def test_an_optimizer_without_a_name_whose_model_is_moved_later() -> None:
    line = "train(model, optim.SGD(model.parameters(), lr=0.1))"
    check_noop("prepare", TRAINED.replace("    for x", "    net.to('cuda')\n    for x") + line, ["DST209"])


def test_an_optimizer_without_a_name_is_refused() -> None:
    text = """
model = Net()


def train(optimizer):
    for x, y in DataLoader(data, batch_size=4):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


train(optim.SGD(build().parameters(), lr=0.1))
"""
    check_noop("prepare", text, ["DST209"])
