import math
from collections import defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

class ConfusionMatrix:
    def __init__(self, classes):
        self.classes = classes
        self.matrix = torch.zeros(classes, classes, dtype=torch.long)

    def update(self, predicted, target):
        for p, t in zip(predicted, target):
            self.matrix[t, p] += 1

    def fast(self, predicted, target):
        self.matrix += torch.bincount(target * self.classes + predicted, minlength=self.classes ** 2).view(self.classes, self.classes)

    def recall(self):
        return self.matrix.diag() / self.matrix.sum(1).clamp(min=1)


class Accuracy:
    def __init__(self):
        self.reset()

    def reset(self):
        self.correct = torch.tensor(0)
        self.total = torch.tensor(0)

    def __call__(self, predicted, target):
        hits = (predicted == target)
        self.correct += hits.sum()
        self.total += target.numel()
        return hits.float().mean()

    def compute(self):
        return self.correct.float() / self.total


class PerClass:
    def __init__(self, classes):
        self.hits = [0] * classes
        self.seen = [0] * classes

    def add(self, predicted, target):
        same = (predicted == target).squeeze()
        for i in range(target.size(0)):
            label = target[i].item()
            self.hits[label] += same[i].item()
            self.seen[label] += 1


data = TensorDataset(torch.randn(30, 6), torch.randint(0, 3, (30,)))
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
opt = optim.SGD(model.parameters(), lr=0.05)
matrix, fast, accuracy, classes = ConfusionMatrix(3), ConfusionMatrix(3), Accuracy(), PerClass(3)
for epoch in range(2):
    accuracy.reset()
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        guess = out.argmax(dim=1)
        matrix.update(guess, y)
        fast.fast(guess, y)
        print(round(accuracy(guess, y).item(), 5))
        classes.add(guess, y)
    print(matrix.matrix.tolist(), (matrix.matrix == fast.matrix).all().item(), matrix.recall().tolist(), round(accuracy.compute().item(), 5), classes.hits, classes.seen)
