"""Programs none of whose training steps is sharded are refused by the name of what they do; others are warned of."""

from __future__ import annotations

import textwrap

import pytest

from distify.codemod.facts import Facts
from distify.codemod.findings import Finding
from distify.codemod.options import Options
from distify.codemod.rewrite import rewrite_source

from .snippets import DATA, HEAD, facts_of

STEP = """
loss.backward()
opt.step()
opt.zero_grad()
"""


def training(
    setup: str, loop: str, *, data: str = "model = Net()\nopt = optim.SGD(model.parameters(), lr=0.1)\n"
) -> str:
    """A training script: the model, what is set up, and a loop that ends with a step."""
    return HEAD + data + textwrap.dedent(setup) + textwrap.dedent(loop) + textwrap.indent(STEP, "    ")


def whole(facts: Facts) -> list[Finding]:
    """What was found about steps that are not sharded."""
    return [item for item in facts.findings if item.code in ("DST118", "DST140", "DST141", "DST142", "DST143")]


def refused(source: str, code: str, line: str) -> Finding:
    """The one finding, which refuses, and the text of its line."""
    (found,) = whole(facts_of(source))
    assert (found.code, found.level) == (code, "error")
    assert source.splitlines()[found.span.line - 1].strip() == line
    assert found.hint
    return found


FIXED = "x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))\n"
FULL = """
for epoch in range(5):
    loss = F.cross_entropy(model(x), y)
"""


def test_one_fixed_batch() -> None:
    found = refused(training(FIXED, FULL), "DST140", "loss = F.cross_entropy(model(x), y)")
    assert "same tensors every time" in found.message


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in DataLoader(TensorDataset(x, y), batch_size=len(x)):\n    loss = F.cross_entropy(model(x), y)",
        "for _ in range(3):\n    a, b = runtime.split((x, y))\n    loss = F.cross_entropy(model(a), b)",
        "for _ in range(3):\n    i = torch.randint(0, 20, (8,))\n    loss = F.cross_entropy(model(x[i]), y[i])",
        "for i in range(0, 20, 4):\n    loss = F.cross_entropy(model(x[i:i + 4]), y[i:i + 4])",
    ],
)
def test_what_the_hint_says_is_sharded(loop: str) -> None:
    assert not whole(facts_of("from distify import runtime\n" + training(FIXED, loop)))


def test_one_example_at_a_time() -> None:
    setup = "pairs = [(torch.randn(1, 4), torch.zeros(1, dtype=torch.long)) for _ in range(9)]\n"
    source = training(setup, "for x, y in pairs:\n    loss = F.cross_entropy(model(x), y)")
    assert "can be told apart" in refused(source, "DST140", "loss = F.cross_entropy(model(x), y)").message


def test_a_batch_that_may_not_be_cut() -> None:
    """The reason against cutting it by rows is told, with its line."""
    setup = """
    class Fixed(Net):
        def forward(self, x):
            return self.fc(x.view(8, 4))

    model = Fixed()
    opt = optim.SGD(model.parameters(), lr=0.1)
    """
    loop = "for _ in range(3):\n    i = torch.randint(0, 20, (8,))\n    loss = F.cross_entropy(model(x[i]), y[i])"
    source = training(FIXED + textwrap.dedent(setup), loop, data="")
    found = refused(source, "DST140", "loss = F.cross_entropy(model(x[i]), y[i])")
    assert f"line {source.splitlines().index('        return self.fc(x.view(8, 4))') + 1}" in found.message


ENVIRONMENT = """
for episode in range(3):
    state, done, logs = env.reset(), False, []
    while not done:
        dist = torch.distributions.Categorical(logits=model(torch.as_tensor(state)))
        action = dist.sample()
        logs.append(dist.log_prob(action))
        state, reward, done, _ = env.step(action.item())
    loss = -torch.stack(logs).sum()
"""


@pytest.mark.parametrize("made", ["import gym\nenv = gym.make('CartPole-v1')\n", "from games import env\n"])
def test_learning_from_an_environment(made: str) -> None:
    refused(training(made, ENVIRONMENT), "DST142", "state, reward, done, _ = env.step(action.item())")


def test_minibatches_of_what_was_collected_are_sharded() -> None:
    """As in PPO: every process plays the same episodes, and the training is shared out."""
    loop = """
    obs, wins = torch.zeros(32, 4), torch.zeros(32)
    for t in range(32):
        with torch.no_grad():
            action = model(obs[t:t + 1]).argmax(1)
        obs[t], wins[t], done, _ = env.step(action.item())
    index = np.arange(32)
    np.random.shuffle(index)
    for start in range(0, 32, 8):
        some = index[start:start + 8]
        loss = ((model(obs[some]).mean(1) - wins[some]) ** 2).mean()
    """
    source = training("import gym\nenv = gym.make('CartPole-v1')\n", loop)
    assert not [item for item in whole(facts_of(source)) if item.level == "error"]


def test_a_schedule_is_no_environment() -> None:
    loop = FULL + "    last = scheduler.step(loss)\n"
    source = training(FIXED + "scheduler = optim.lr_scheduler.ReduceLROnPlateau(opt)\n", loop)
    refused(source, "DST140", "loss = F.cross_entropy(model(x), y)")


GRAPHS = {
    "a loss of some nodes": ("", "out = model(x)", "F.cross_entropy(out[mask], y[mask])"),
    "numbers of nodes": ("", "out = model(x)", "F.cross_entropy(out[data.train], y[data.train])"),
    "layers of a library": (
        "from torch_geometric.nn import GCNConv\nmodel.conv = GCNConv(4, 4)\n",
        "out = model(x)",
        "F.cross_entropy(out, y)",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_as_a_whole(name: str) -> None:
    setup, forward, loss = GRAPHS[name]
    mask = "mask = torch.arange(20) < 9\nfrom somewhere import data\n"
    source = training(FIXED + mask + setup, f"for _ in range(3):\n    {forward}\n    loss = {loss}")
    refused(source, "DST141", forward)


def test_the_class_of_each_row_is_no_node() -> None:
    """Rows numbered one by one, and one column of each: Q-values of actions."""
    loop = "for _ in range(3):\n    q = model(x)[torch.arange(20), y]\n    loss = q.pow(2).mean()"
    refused(training(FIXED, loop), "DST140", "q = model(x)[torch.arange(20), y]")


TASK = "    x, y = tasks.sample()\n"
FAST = "    fast = {n: p - 0.1 * g for (n, p), g in zip(model.named_parameters(), grads)}\n"
INNER = {
    "gradients of the parameters": (
        "for task in range(3):\n"
        + TASK
        + "    inner = F.cross_entropy(model(x), y)\n"
        + "    grads = torch.autograd.grad(inner, list(model.parameters()), create_graph=True)\n"
        + FAST
        + "    loss = sum((p ** 2).sum() for p in fast.values())",
        "grads = torch.autograd.grad(inner, list(model.parameters()), create_graph=True)",
    ),
    "other weights in the same model": (
        "for task in range(3):\n" + TASK + "    loss = F.cross_entropy(torch.func.functional_call(model, {}, (x,)), y)",
        "loss = F.cross_entropy(torch.func.functional_call(model, {}, (x,)), y)",
    ),
    "higher": (
        "import higher\nfor task in range(3):\n"
        + TASK
        + "    with higher.innerloop_ctx(model, opt) as (net, inner):\n"
        + "        inner.step(F.cross_entropy(net(x), y))\n"
        + "        loss = F.cross_entropy(net(x), y)",
        "with higher.innerloop_ctx(model, opt) as (net, inner):",
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_an_inner_loop(name: str) -> None:
    loop, line = INNER[name]
    refused(training("import tasks\n", loop), "DST143", line)


def test_an_inner_loss_of_batches_is_sharded() -> None:
    loop = """
    for (x, y), (a, b) in zip(loader, loader):
        grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()), create_graph=True)
        loss = F.cross_entropy(model(a), b) + sum((g ** 2).sum() for g in grads)
    """
    assert not whole(facts_of(training("", loop, data=DATA)))


def test_a_warning_where_other_steps_are_sharded() -> None:
    """Batches of a loader first, then all samples of other tensors at once."""
    first = "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)" + textwrap.indent(STEP, "    ")
    source = training(first + FIXED, FULL, data=DATA)
    (found,) = whole(facts_of(source))
    assert (found.code, found.level) == ("DST118", "warning")
    assert found.span.line == source.splitlines().index("for epoch in range(5):") + 2


def test_one_refusal_for_all_steps() -> None:
    source = training(FIXED, FULL + textwrap.indent(STEP, "    ") + FULL)
    assert [item.code for item in whole(facts_of(source))] == ["DST140"]


def test_nothing_about_a_program_that_is_refused_for_its_optimizer() -> None:
    source = training("opt = optim.SGD([w for w in weights()], lr=0.1)\n", FULL, data="model = Net()\n" + FIXED)
    assert all(item.level != "error" for item in whole(facts_of(source)))


def test_suppressed() -> None:
    """On request every process computes the whole, which is exact."""
    source = training(FIXED, FULL.replace("y)", "y)  # distify: ignore[DST140]"))
    result = rewrite_source(source.encode(), "train.py", Options())
    assert not result.refused
    assert b"runtime.backward(loss)" in result.data
