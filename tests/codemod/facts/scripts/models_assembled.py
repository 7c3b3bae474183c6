import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
test_data = TensorDataset(torch.randn(17, 6), torch.randint(0, 3, (17,)))
loader = DataLoader(data, batch_size=7, shuffle=True)


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def evaluate(model):
    model.eval()
    correct, total = 0, 0.0
    with torch.no_grad():
        for x, y in DataLoader(test_data, batch_size=5):
            x, y = x.to(device), y.to(device)
            out = model(x)
            total += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
    model.train()
    return f"{correct} {total / len(test_data):.5f}"


import sys


def make_layers(plan):
    layers, width = [], 6
    for item in plan:
        if item == "R":
            layers += [nn.ReLU(inplace=True)]
        elif item == "B":
            layers.append(nn.BatchNorm1d(width))
        else:
            layers.append(nn.Linear(width, item))
            width = item
    return nn.Sequential(*layers)


def build():
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = make_layers([8, "B", "R", 8, "R"])
            self.heads = nn.ModuleDict({"a": nn.Linear(8, 3), "b": nn.Linear(8, 1)})
            self.more = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
            self.tied = nn.Linear(8, 8)
            self.tied.weight = self.more[0].weight
            for i in range(2):
                self.add_module(f"extra{i}", nn.Linear(8, 8))

        def forward(self, x):
            f = self.features(x)
            for m in [*self.more, self.tied]:
                f = f + m(f)
            for i in range(2):
                f = getattr(self, f"extra{i}")(f)
            return {k: h(f) for k, h in self.heads.items()}

    return Local()


class Head(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(torch.tanh(self.backbone(x)))


loader = DataLoader(data, batch_size=8, shuffle=True)
model, small = build(), getattr(sys.modules[__name__], "Net")()
banks = nn.ModuleDict()
for name in ["enc", "dec"]:
    banks[name] = nn.Linear(6, 6)
backbone = nn.Linear(6, 8)
first, second = Head(backbone), Head(backbone)
params = list(model.parameters()) + list(small.parameters())
for bank in banks.values():
    params += list(bank.parameters())
opt = optim.SGD(params, lr=0.05)
shared = itertools.chain(backbone.parameters(), first.fc.parameters(), second.fc.parameters())
head_opt = optim.SGD(list(shared), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out["a"], y) + F.mse_loss(out["b"].squeeze(1), y.float()) + F.cross_entropy(small(x), y)
        loss = loss + F.mse_loss(banks["dec"](torch.tanh(banks["enc"](x))), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        heads = F.cross_entropy(first(x), y) + 0.5 * F.cross_entropy(second(x), (y + 1) % 3)
        head_opt.zero_grad()
        heads.backward()
        head_opt.step()
        print(f"{loss.item():.6f} {heads.item():.6f}")
print(evaluate(small), evaluate(first), sum(p.numel() for p in model.parameters() if p.requires_grad))
torch.save({"model": model.state_dict(), "banks": {k: v.state_dict() for k, v in banks.items()}}, "m.pt")
torch.save({"first": first.state_dict(), "second": second.state_dict()}, "h.pt")
