"""Batches that are objects with .to(), nested tuples, a vocabulary ordered by a set and by hashes, hidden states by batch size."""

import argparse
from collections import Counter, namedtuple
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=6)
parser.add_argument("--hidden", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LINES = [
    "the cat sat down",
    "a dog ran off",
    "the bird flew",
    "one fish swam far away",
    "a cow ate",
    "two cats sat",
] * 4
words = {w for line in LINES for w in line.split()}
vocab = {w: i + 1 for i, w in enumerate(words)}
Pair = namedtuple("Pair", "tokens label")


@dataclass
class Batch:
    text: torch.Tensor
    lengths: torch.Tensor
    extra: tuple

    def to(self, device):
        (labels, weights), names = self.extra
        return Batch(self.text.to(device), self.lengths.to(device), ((labels.to(device), weights.to(device)), names))


def encode(line):
    return Pair(torch.tensor([vocab[w] for w in line.split()]), hash(line.split()[0]) % 2)


def collate(rows):
    text = nn.utils.rnn.pad_sequence([r.tokens for r in rows], batch_first=True)
    labels = torch.tensor([r.label for r in rows])
    weights = torch.tensor([1.0 + 0.1 * len(r.tokens) for r in rows])
    return Batch(
        text, torch.tensor([len(r.tokens) for r in rows]), ((labels, weights), [f"n{len(r.tokens)}" for r in rows])
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(vocab) + 1, args.hidden)
        self.cell = nn.GRU(args.hidden, args.hidden, batch_first=True)
        self.head = nn.Linear(args.hidden, 2)

    def init_hidden(self, batch_size):
        return torch.zeros(1, batch_size, args.hidden, device=device)

    def forward(self, text, lengths, hidden):
        out, hidden = self.cell(self.embed(text), hidden)
        picked = out[torch.arange(text.size(0)), lengths - 1]
        return self.head(picked), hidden


loader = DataLoader([encode(line) for line in LINES], args.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
names = Counter()
for epoch in range(2):
    for batch in loader:
        batch = batch.to(device)
        (labels, weights), tags = batch.extra
        hidden = model.init_hidden(args.batch_size)
        scores, hidden = model(batch.text, batch.lengths, hidden)
        loss = (nn.functional.cross_entropy(scores, labels, reduction="none") * weights).sum() / weights.sum()
        loss = loss + 0.01 * hidden.view(args.batch_size, -1).pow(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        names.update(tags)
        print(f"{epoch} {loss.item():.5f} {scores[0].argmax().item()} {labels[:3].tolist()}")
print(sorted(names.items()))
