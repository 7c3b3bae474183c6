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


class Trainer:
    def __init__(self):
        self.net = nn.DataParallel(Net().to(device)).to(device)
        groups = [
            {"params": self.net.module.fc1.parameters(), "lr": 0.01},
            {"params": self.net.module.fc2.parameters()},
        ]
        self.opt = optim.Adam(groups, lr=0.1)

    def step(self, x, y):
        loss = F.cross_entropy(self.net(x), y.to(device)) + 1e-3 * self.net.module.fc1.weight.pow(2).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


wrapped = torch.nn.DataParallel(Net().to(device), device_ids=None)
maybe = Net()
if torch.cuda.device_count() > 1:
    print("several devices")
    maybe = nn.DataParallel(maybe)
maybe.to(device)
opt = optim.SGD(itertools.chain(wrapped.parameters(), maybe.parameters()), lr=0.1)
trainer = Trainer()
for epoch in range(2):
    for x, y in loader:
        target = y.to(device)
        loss = F.cross_entropy(wrapped(x), target) + F.cross_entropy(maybe(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.6f} {trainer.step(x, y):.6f}")
    torch.save({"net": trainer.net.state_dict(), "module": trainer.net.module.state_dict()}, "trainer.pt")
    torch.save({"model": wrapped.state_dict(), "epoch": epoch}, "wrapped.pt")
    raw = maybe.module if hasattr(maybe, "module") else maybe
    torch.save(raw.state_dict(), "maybe.pt")
state = torch.load("wrapped.pt")["model"]
wrapped.load_state_dict(state)
single = Net().to(device)
single.load_state_dict({k.replace("module.", ""): v for k, v in state.items()})
print(evaluate(single), evaluate(wrapped), evaluate(maybe), list(state))
print([name for name, p in wrapped.named_parameters() if "bias" in name])
