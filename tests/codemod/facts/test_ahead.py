"""Batches that are kept while the next one is fetched have to be named; others have no need of it."""

from __future__ import annotations

import pytest

from tests.codemod.facts.snippets import DATA, HEAD, edits, facts_of

STEP = """
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
CLASS = """
class Prefetcher:
    def __init__(self, loader):
        self.it = iter(loader)
        self.batch = next(self.it, None)

    def __iter__(self):
        return self

    def __next__(self):
        batch = self.batch
        if batch is None:
            raise StopIteration
        self.batch = next(self.it, None)
        return batch


for x, y in Prefetcher(loader):
"""
DICT = """
class Trainer:
    def fetch(self):
        self.batch = getattr(self, "upcoming", None)
        x, y = next(self.it)
        self.upcoming = {"x": x, "y": y}


trainer = Trainer()
trainer.it = iter(loader)
for _ in range(len(loader)):
    trainer.fetch()
    x, y = trainer.upcoming["x"], trainer.upcoming["y"]
"""
GENERATOR = """
def lookahead(loader):
    it = iter(loader)
    last = next(it)
    for item in it:
        yield last, False
        last = item
    yield last, True


for (x, y), is_last in lookahead(loader):
"""
LOOP = """
it = iter(loader)
batch = next(it)
while batch is not None:
    upcoming = next(it, None)
    x, y = batch
    batch = upcoming
"""
FIRST = """
old = None
for x, y in loader:
    if old is not None:
        print(F.cross_entropy(model(old), y))
    old = x
"""


@pytest.mark.parametrize("loop", [CLASS, DICT, GENERATOR, LOOP, FIRST])
def test_named(loop: str) -> None:
    found = edits(facts_of(f"{HEAD}\n{DATA}{loop}{STEP}"))
    assert "mean(F.cross_entropy(model(x), y), of=y)" in found


PLAIN = "for x, y in loader:\n    x = x.float()"
ENUMERATED = "for i, batch in enumerate(loader):\n    batch = [t.float() for t in batch]\n    x, y = batch"
ASKED = "it = iter(loader)\nfor i in range(9):\n    x, y = next(it)"
AGAIN = """
it = iter(loader)
for i in range(9):
    try:
        x, y = next(it)
    except StopIteration:
        it = iter(loader)
        x, y = next(it)
"""


@pytest.mark.parametrize("loop", [PLAIN, ENUMERATED, ASKED, AGAIN])
def test_not_named(loop: str) -> None:
    assert edits(facts_of(f"{HEAD}\n{DATA}{loop}{STEP}")) == ["mean(F.cross_entropy(model(x), y))"]


HIDDEN = """
class Prefetcher:
    def __init__(self, loader):
        self.it = iter(loader)
        self.batch = next(self.it, None)

    def next(self):
        batch = self.batch
        self.batch = next(self.it, None)
        return batch


def value(found):
    return {"loss": found.item()}


fetcher = Prefetcher(loader)
"""


def test_a_name_of_what_was_computed_does_as_well() -> None:
    body = """
for _ in range(5):
    out = F.cross_entropy(model(fetcher.batch[0]), fetcher.next()[1], reduction="none")
    loss = out.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    assert edits(facts_of(f"{HEAD}\n{DATA}{HIDDEN}{body}")) == ["mean(out.mean(), of=out)"]


def test_refused_where_nothing_names_it() -> None:
    body = """
for _ in range(5):
    loss = model(fetcher.next()[0]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    facts = facts_of(f"{HEAD}\n{DATA}{HIDDEN}{body}")
    assert [item.code for item in facts.findings] == ["DST102"]
