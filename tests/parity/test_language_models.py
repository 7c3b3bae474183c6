"""Language models on ragged batches: each token counts once, wherever its sentence lies and in whichever micro-batch.

Sentences differ in length and a third of them are prompts without targets, so that slices hold different numbers of
tokens, and some hold none: means of means would be wrong (the last test shows it).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distify.codemod.options import Options
from tests.conversions import rewrite
from tests.parity.compare import assert_output_equal
from tests.pool import Pool

SCRIPT = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(5)
size, verbose = int(sys.argv[1]), sys.argv[2] == "steps"
PAD, WORDS = 0, 11
sentences = [torch.randint(1, WORDS, (int(n),)) for n in torch.randint(2, 9, (34,))]
texts = [(ids, i % 3 != 2) for i, ids in enumerate(sentences)]
token_weight = torch.rand(WORDS) + 0.5


def collate(batch):
    ids = pad_sequence([ids for ids, _ in batch], batch_first=True, padding_value=PAD)
    keep = torch.tensor([kept for _, kept in batch])
    labels = ids.masked_fill((ids == PAD) | ~keep[:, None], {ignored})
    lengths = torch.tensor([len(ids) for ids, _ in batch])
    return ids, labels, lengths


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, WORDS)

    def forward(self, ids{labels}):
        logits = self.head(self.rnn(self.embed(ids))[0])
        {returned}


loader = DataLoader(texts, batch_size=size, shuffle=True, collate_fn=collate)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
criterion = {criterion}
for epoch in range(2):
    for ids, labels, lengths in loader:
        optimizer.zero_grad()
        {loss}
        loss.backward()
        optimizer.step()
        if verbose:
            print(f"{loss.item():.6f}")
print(*model.head.weight.flatten().tolist(), *model.embed.weight.flatten().tolist())
model.eval()
total, count = 0.0, 0
with torch.no_grad():
    for ids, labels, lengths in DataLoader(texts, batch_size=7, collate_fn=collate):
        out = {evaluated}[:, :-1]
        goal = labels[:, 1:]
        total += F.cross_entropy(out.transpose(1, 2), goal, ignore_index={ignored}, reduction="sum").item()
        count += (goal != {ignored}).sum().item()
print(f"{total / count:.6f} {count}")
"""

SHIFTED = "out, goal = model(ids)[:, :-1], labels[:, 1:]\n"
FLAT = "model(ids)[:, :-1].reshape(-1, WORDS), labels[:, 1:].reshape(-1)"
TOKENS = SHIFTED + "mask = goal != -100\ntoken = F.cross_entropy(out.transpose(1, 2), goal, reduction='none')\n"

LOSSES = {
    "ignored by default": f"loss = F.cross_entropy({FLAT})",
    "ignored padding": f"loss = F.cross_entropy({FLAT}, ignore_index=PAD)",
    "criterion": f"loss = criterion({FLAT})",
    "label smoothing": f"loss = F.cross_entropy({FLAT}, ignore_index=-100, label_smoothing=0.1)",
    "class weights": f"loss = F.cross_entropy({FLAT}, weight=token_weight, ignore_index=-100)",
    "weights and smoothing": f"loss = F.cross_entropy({FLAT}, weight=token_weight, label_smoothing=0.2)",
    "nll": f"{SHIFTED}loss = F.nll_loss(F.log_softmax(out, -1).transpose(1, 2), goal)",
    "sum by count": f"{SHIFTED}loss = F.cross_entropy(out.transpose(1, 2), goal, reduction='sum') / (goal != -100).sum()",
    "sum by a number": f"{SHIFTED}tokens = (goal != -100).sum().item()\n"
    "loss = F.cross_entropy(out.transpose(1, 2), goal, reduction='sum') / tokens",
    "sum by lengths": f"{SHIFTED}loss = F.cross_entropy(out.transpose(1, 2), goal, reduction='sum') / lengths.sum()",
    "masked mean": f"{TOKENS}loss = (token * mask).sum() / mask.sum()",
    "guarded mean": f"{TOKENS}loss = (token * mask).sum() / mask.sum().clamp(min=1)",
    "picked tokens": f"{TOKENS}loss = token[mask].mean()",
    "token weights": f"{TOKENS}weight = token_weight[ids[:, 1:]] * mask\nloss = (token * weight).sum() / weight.sum()",
    "mean of sentences": f"{TOKENS}loss = ((token * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()",
    "gathered by hand": f"{SHIFTED}mask = goal != -100\n"
    "picked = F.log_softmax(out, -1).gather(-1, goal.clamp(min=0).unsqueeze(-1)).squeeze(-1)\n"
    "loss = -(picked * mask).sum() / mask.sum()",
    "of the model": "loss, out = model(ids, labels)",
}
INSIDE = "loss = F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), labels[:, 1:].reshape(-1), ignore_index=-100)"


def source(name: str) -> str:
    """The script with one of the losses."""
    inside = name == "of the model"
    parts = {
        "ignored": "PAD" if name == "ignored padding" else "-100",
        "labels": ", labels" if inside else "",
        "returned": f"{INSIDE}\n        return loss, logits" if inside else "return logits",
        "evaluated": "model(ids, labels)[1]" if inside else "model(ids)",
        "criterion": "nn.CrossEntropyLoss(ignore_index=-100)",
        "loss": LOSSES[name].replace("\n", "\n        "),
    }
    text = SCRIPT
    for key, part in parts.items():
        text = text.replace("{" + key + "}", part)
    return text


def converted(name: str, options: Options, folder: Path) -> Path:
    result = rewrite(source(name).encode(), "train.py", options)
    assert not result.refused, result.findings
    path = folder / f"on_{options.backend}.py"
    path.write_bytes(result.data)
    return path


OTHERS = (
    Options(backend="fsdp"),
    Options(backend="deepspeed", zero_stage=1),
    Options(backend="ddp"),
    Options(backend="deepspeed", zero_stage=3),
)


@pytest.mark.parametrize("name", LOSSES)
def test_step_by_step(name: str, pool1: Pool, pool2: Pool, pool3: Pool, tmp_path: Path) -> None:
    """Batches of 6, the last of 4: on three ranks some have but prompts."""
    original = tmp_path / "original.py"
    original.write_text(source(name))
    expected = pool1.script(original, ["6", "steps"], tmp_path).check().stdout
    ddp = converted(name, Options(backend="ddp"), tmp_path)
    assert_output_equal(expected, pool2.script(ddp, ["6", "steps"], tmp_path).check().stdout)
    other = converted(name, OTHERS[list(LOSSES).index(name) % len(OTHERS)], tmp_path)
    assert_output_equal(expected, pool3.script(other, ["6", "steps"], tmp_path).check().stdout)


TURNS = ((2, "ddp"), (3, "fsdp"), (2, "deepspeed"), (3, "ddp"), (2, "fsdp"))


@pytest.mark.parametrize("name", LOSSES)
def test_windows(name: str, pool1: Pool, pool2: Pool, pool3: Pool, tmp_path: Path) -> None:
    """Three batches of 4 that hold different numbers of tokens are one of 12; the last window has 4, 4 and 2 rows."""
    original = tmp_path / "original.py"
    original.write_text(source(name))
    expected = pool1.script(original, ["12", "end"], tmp_path).check().stdout
    size, backend = TURNS[list(LOSSES).index(name) % len(TURNS)]
    script = converted(name, Options(backend=backend, accumulate=3), tmp_path)
    pool = {2: pool2, 3: pool3}[size]
    assert_output_equal(expected, pool.script(script, ["4", "end"], tmp_path).check().stdout)


def test_a_mean_of_means_is_wrong(pool1: Pool, pool2: Pool, tmp_path: Path) -> None:
    """The same conversion without its divisors trains another model: what is above can fail."""
    original = tmp_path / "original.py"
    original.write_text(source("ignored by default"))
    script = converted("ignored by default", Options(backend="ddp"), tmp_path)
    text, count = re.subn(r", by=\(labels\[:, 1:\]\.reshape\(-1\) != -100\)\.sum\(\)", "", script.read_text())
    assert count == 1
    script.write_text(text)
    expected = pool1.script(original, ["6", "end"], tmp_path).check().stdout
    found = pool2.script(script, ["6", "end"], tmp_path).check().stdout
    with pytest.raises(AssertionError, match="relative tolerance"):
        assert_output_equal(expected, found)
