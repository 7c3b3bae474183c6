"""Autocast is around forward and loss, in the fewest statements, never around a backward or a step."""

from __future__ import annotations

import pytest

from tests.codemod.rules.checks import check_noop, check_rewritten

BUILD = """
loader = DataLoader(data, batch_size=4)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
total = 0.0
"""

REWRITES = {
    "one statement": (
        """
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.autocast():
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    ),
    "forward to loss, with what is between": (
        """
for x, y in loader:
    # forward
    out = model(x)
    optimizer.zero_grad()  # clear
    loss = criterion(out, y)
    loss = loss + 0.1

    loss.backward()
    optimizer.step()
    total += loss.item()
""",
        """
for x, y in loader:
    # forward
    with runtime.autocast():
        out = model(x)
        optimizer.zero_grad()  # clear
        loss = criterion(out, y)
        loss = loss + 0.1

    loss.backward()
    optimizer.step()
    total += loss.item()
""",
    ),
    "sum over parts": (
        """
for x, y in loader:
    loss = 0
    for part in x.split(2, dim=1):
        loss += model(torch.cat([part, part], 1)).mean()
    loss.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    loss = 0
    for part in x.split(2, dim=1):
        with runtime.autocast():
            loss += model(torch.cat([part, part], 1)).mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "two losses, one backward": (
        """
for x, y in loader:
    a = criterion(model(x), y)
    b = criterion(model(-x), y)
    (a + b).backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.autocast():
        a = criterion(model(x), y)
        b = criterion(model(-x), y)
    (a + b).backward()
    optimizer.step()
""",
    ),
    "two pairs": (
        """
for x, y in loader:
    a = criterion(model(x), y)
    a.backward()
    b = criterion(model(-x), y)
    b.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.autocast():
        a = criterion(model(x), y)
    a.backward()
    with runtime.autocast():
        b = criterion(model(-x), y)
    b.backward()
    optimizer.step()
""",
    ),
    "two forwards, two backwards": (
        """
for x, y in loader:
    a = criterion(model(x), y)
    b = criterion(model(-x), y)
    a.backward()
    b.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    with runtime.autocast():
        a = criterion(model(x), y)
        b = criterion(model(-x), y)
    a.backward()
    b.backward()
    optimizer.step()
""",
    ),
    "a loss that needs an inner gradient": (
        """
for x, y in loader:
    x.requires_grad_()
    out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    loss = criterion(out, y) + g.pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        """
for x, y in loader:
    x.requires_grad_()
    with runtime.autocast():
        out = model(x)
    g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
    loss = criterion(out, y) + g.pow(2).mean()
    loss.backward()
    optimizer.step()
""",
    ),
    "a function that returns the loss": (
        """
def compute(x, y):
    return F.cross_entropy(model(x), y)


for x, y in loader:
    loss = compute(x, y)
    loss.backward()
    optimizer.step()
""",
        """
def compute(x, y):
    with runtime.autocast():
        return F.cross_entropy(model(x), y)


for x, y in loader:
    loss = compute(x, y)
    loss.backward()
    optimizer.step()
""",
    ),
    "a function that returns what it makes of the forward": (
        """
def compute(x, y):
    out = model(x)
    loss = F.cross_entropy(out, y)
    return 0.5 * loss + F.mse_loss(out, x[:, :2])


for x, y in loader:
    loss = compute(x, y)
    loss.backward()
    optimizer.step()
""",
        """
def compute(x, y):
    with runtime.autocast():
        out = model(x)
        loss = F.cross_entropy(out, y)
        return 0.5 * loss + F.mse_loss(out, x[:, :2])


for x, y in loader:
    loss = compute(x, y)
    loss.backward()
    optimizer.step()
""",
    ),
    "a function that returns more than the loss": (
        """
def compute(x, y):
    out = model(x)
    hits = (out.argmax(1) == y).sum().item()
    return out, hits


for x, y in loader:
    out, hits = compute(x, y)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
""",
        """
def compute(x, y):
    with runtime.autocast():
        out = model(x)
    hits = (out.argmax(1) == y).sum().item()
    return out, hits


for x, y in loader:
    out, hits = compute(x, y)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
""",
    ),
    "a closure": (
        """
for x, y in loader:
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
        """
for x, y in loader:
    def closure():
        optimizer.zero_grad()
        with runtime.autocast():
            loss = criterion(model(x), y)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    ),
    "a condition on the phase": (
        """
for x, y in loader:
    with torch.set_grad_enabled(total < 1):
        out = model(x)
        loss = criterion(out, y)
        if total < 1:
            loss.backward()
            optimizer.step()
""",
        """
for x, y in loader:
    with torch.set_grad_enabled(total < 1):
        with runtime.autocast():
            out = model(x)
            loss = criterion(out, y)
        if total < 1:
            loss.backward()
            optimizer.step()
""",
    ),
}

TRAIN = """
for x, y in loader:
    with runtime.autocast():
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""

INNER = """
class Base(nn.Module):
    pass


class Twin(Base):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x)


twin = Twin()
"""

EVALUATIONS = {
    "forward": (
        """
with torch.no_grad():
    for x, y in loader:
        out = model(x)
        total += F.cross_entropy(out, y, reduction="sum").item()
""",
        """
with torch.no_grad():
    for x, y in loader:
        with runtime.autocast():
            out = model(x)
            total += F.cross_entropy(out, y, reduction="sum").item()
""",
    ),
    "a loss of the script's own": (
        """
def loss_of(logits, target):
    return F.cross_entropy(logits, target) + 0.1


with torch.no_grad():
    for x, y in loader:
        out = model(x)
        total += loss_of(out, y).item()
        count += abs(y).sum()
""",
        """
def loss_of(logits, target):
    return F.cross_entropy(logits, target) + 0.1


with torch.no_grad():
    for x, y in loader:
        with runtime.autocast():
            out = model(x)
            total += loss_of(out, y).item()
        count += abs(y).sum()
""",
    ),
    "a loss that is assigned": (
        """
with torch.no_grad():
    for x, y in loader:
        out = model(x)
        loss = criterion(out, y)
        total += loss.item()
""",
        """
with torch.no_grad():
    for x, y in loader:
        with runtime.autocast():
            out = model(x)
            loss = criterion(out, y)
        total += loss.item()
""",
    ),
    "a loss that arrives": (
        """
with torch.no_grad():
    for x, y in loader:
        out, loss = model(x)
        loss = runtime.mean(loss)
        total += loss.item()
""",
        """
with torch.no_grad():
    for x, y in loader:
        with runtime.autocast():
            out, loss = model(x)
            loss = runtime.mean(loss)
        total += loss.item()
""",
    ),
    "neighbours": (
        """
with torch.no_grad():
    a = model(torch.zeros(1, 4))
    b = model(torch.ones(1, 4))
    print(a, b)
""",
        """
with torch.no_grad():
    with runtime.autocast():
        a = model(torch.zeros(1, 4))
        b = model(torch.ones(1, 4))
    print(a, b)
""",
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_training(case: str) -> None:
    before, after = REWRITES[case]
    check_rewritten("autocast", BUILD + before, BUILD + after)


@pytest.mark.parametrize("case", EVALUATIONS)
def test_evaluation(case: str) -> None:
    before, after = EVALUATIONS[case]
    check_rewritten("autocast", BUILD + TRAIN + before, BUILD + TRAIN + after)


@pytest.mark.parametrize(
    "text",
    [
        TRAIN,
        TRAIN.replace("runtime.autocast()", 'torch.autocast("cpu", dtype=torch.bfloat16)'),
        TRAIN.replace("runtime.autocast()", "torch.cuda.amp.autocast()"),
        TRAIN.replace("runtime.autocast()", "torch.no_grad(), runtime.autocast()"),
        TRAIN + "\nprint(model)\nmodel.eval()\n",
        TRAIN.replace("model(x)", "model(x) + twin(x)").replace("\nfor", INNER + "\nfor", 1),
        TRAIN + "\nprint(sum(p.numel() for p in model.parameters()))\n",
        TRAIN + "\nprint(criterion(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long)))\n",
    ],
)
def test_noop(text: str) -> None:
    check_noop("autocast", BUILD + text)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_the_same_for_all_reduced_precisions(precision: str) -> None:
    before, after = REWRITES["one statement"]
    check_rewritten("autocast", BUILD + before, BUILD + after, precision=precision)


def test_none_under_fp32() -> None:
    before, after = REWRITES["one statement"]
    check_noop("autocast", BUILD + before, precision="fp32")
    check_rewritten("autocast", BUILD + after, BUILD + before, precision="fp32")


def test_fp32_of_the_converted_script_holds_until_another_is_given() -> None:
    before, after = REWRITES["one statement"]
    start = 'runtime.init(precision="fp32")\n'
    check_noop("autocast", start + BUILD + before, whole=False)
    check_rewritten("autocast", start + BUILD + before, start + BUILD + after, precision="bf16")


def test_removal_keeps_comments_and_shared_statements() -> None:
    before = """
for x, y in loader:
    # both
    with runtime.autocast():  # low precision
        # forward
        loss = F.cross_entropy(model(x), y)  # loss
    loss.backward()
    with torch.no_grad(), runtime.autocast():
        print(model(x).shape)
    optimizer.step()
"""
    after = """
for x, y in loader:
    # both
    # low precision
    # forward
    loss = F.cross_entropy(model(x), y)  # loss
    loss.backward()
    with torch.no_grad(), runtime.autocast():
        print(model(x).shape)
    optimizer.step()
"""
    check_rewritten("autocast", BUILD + before, BUILD + after, precision="fp32")
