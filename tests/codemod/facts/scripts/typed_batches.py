"""One loop for losses of one, two or three inputs: batches and outputs are tuples or tensors, told apart by type."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
points = torch.randn(31, 5)
labels = torch.randint(0, 3, (31,))


class Pairs(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, first, second, same, averaged=True):
        gap = (first - second).pow(2).sum(1)
        each = same * gap + (1 - same) * F.relu(self.margin - gap.sqrt())
        return each.mean() if averaged else each.sum()


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 2)

    def forward(self, first, second):
        return self.body(first), self.body(second)


def train(loader, net, criterion, optimizer):
    shown = []
    for step, (inputs, target) in enumerate(loader):
        target = target if len(target) > 0 else None
        if not isinstance(inputs, (tuple, list)):
            inputs = (inputs,)
        optimizer.zero_grad()
        outputs = net(*inputs)
        if type(outputs) not in (tuple, list):
            outputs = (outputs,)
        given = outputs
        if target is not None:
            target = (target,)
            given += target
        found = criterion(*given)
        loss = found[0] if type(found) in (tuple, list) else found
        loss.backward()
        optimizer.step()
        shown.append(loss.item())
        print(f"{step * len(inputs[0])} {loss.item():.6f}")
    return sum(shown) / len(shown)


plain = nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(1))
loader = DataLoader(TensorDataset(points, labels), batch_size=7)
descent = torch.optim.SGD(plain.parameters(), lr=0.1)
print(f"{train(loader, plain, nn.NLLLoss(), descent):.6f}")


class Both(torch.utils.data.Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, i):
        return (points[i], points[i + 1]), float(labels[i] == labels[i + 1])


twin = Twin()
pairs = DataLoader(Both(), batch_size=7)
descent = torch.optim.SGD(twin.parameters(), lr=0.1)
print(f"{train(pairs, twin, Pairs(1.0), descent):.6f}")
