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


model = Net()
opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        total = 0.0
        for p in model.parameters():
            if p.grad is not None:
                total += p.grad.data.norm(2).item() ** 2
        norms = torch.stack([p.grad.detach().norm(2) for p in model.parameters()])
        for name, p in model.named_parameters():
            print(name, f"{p.grad.norm().item():.6f} {p.grad.abs().max().item():.6f}")
        for p in model.fc1.parameters():
            p.grad *= 0.5
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad.data.clamp_(-0.05, 0.05)
        opt.step()
        print(f"{loss.item():.6f} {total**0.5:.6f} {norms.norm().item():.6f}")
print(evaluate(model))
torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, "g.pt")
