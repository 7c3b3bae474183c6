"""Records in lists: an iterator class cuts them into batches, a loop by hand cuts others, two sets take turns."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Batches:
    def __init__(self, records, size):
        self.records, self.size, self.index = records, size, 0
        self.full = len(records) // size
        self.rest = len(records) % size != 0

    def _tensors(self, records):
        values = torch.FloatTensor([record[0] for record in records])
        kinds = torch.LongTensor([record[1] for record in records])
        lengths = torch.LongTensor([record[2] for record in records])
        return (values, lengths), kinds

    def __next__(self):
        if self.rest and self.index == self.full:
            records = self.records[self.index * self.size : len(self.records)]
            self.index += 1
            return self._tensors(records)
        elif self.index >= self.full:
            self.index = 0
            raise StopIteration
        records = self.records[self.index * self.size : (self.index + 1) * self.size]
        self.index += 1
        return self._tensors(records)

    def __iter__(self):
        return self

    def __len__(self):
        return self.full + 1 if self.rest else self.full


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        return self.fc(x[0]) / x[1].unsqueeze(1)


random.seed(1)
torch.manual_seed(1)
records = [([random.random() for _ in range(5)], random.randrange(3), 1 + n % 4) for n in range(45)]
train, valid = Batches(records[:31], 8), Batches(records[31:], 6)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
for epoch in range(3):
    for i, (inputs, kinds) in enumerate(train):
        out = net(inputs)
        net.zero_grad()
        loss = F.cross_entropy(out, kinds)
        loss.backward()
        optimizer.step()
        if i % 2 == 0:
            right = (out.max(1)[1] == kinds).float().mean().item()
            print(f"{epoch} {i} loss {loss.item():.5f} right {right:.4f}")
    total, hits = 0, 0
    with torch.no_grad():
        for inputs, kinds in valid:
            out = net(inputs)
            total += F.cross_entropy(out, kinds)
            hits += (out.argmax(1) == kinds).sum().item()
    print(f"valid {total / len(valid):.5f} {hits}")

other = torch.randn(20, 5)
for epoch in range(2):
    random.shuffle(records)
    start = 0
    while start < len(records):
        values, kinds, lengths = zip(*records[start : start + 7])
        loss = F.cross_entropy(net((torch.tensor(values), torch.tensor(lengths))), torch.tensor(kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        start += 7
        print(f"{start} {loss.item():.5f}")
    for begin in range(0, 20, 6):
        if epoch % 2:
            some = other[begin : begin + 6]
        else:
            some = other.flip(0)[begin : begin + 6]
        out = net((some, torch.ones(len(some))))
        loss = out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{len(some)} {loss.item():.5f}")
