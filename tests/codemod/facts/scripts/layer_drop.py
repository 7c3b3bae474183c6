import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
X = torch.randn(53, 6)
Y = (X[:, 0] * 2 + X[:, 1] > 0).long() + (X[:, 2] > 1).long()
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.fc, self.p = nn.Linear(16, 16), p

    def forward(self, x):
        if self.training and torch.rand(()) < self.p:
            return x
        scale = torch.empty(1).uniform_(0.5, 1.5)
        return x + scale * torch.tanh(self.fc(x))


class Stem(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 16), Block(0.3), nn.BatchNorm1d(16))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem()
        self.blocks = nn.ModuleList(nn.Sequential(Block(0.4), nn.Sequential(*[Block(0.2) for _ in range(2)])) for _ in range(2))
        self.head = nn.Linear(16, 3)
        self.last = torch.randperm(16)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        if self.training:
            x = x[:, torch.randperm(16)] * (torch.rand_like(self.head.bias).mean() + 1)
        return self.head(x)


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
for epoch in range(3):
    model.train()
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.5f}")
    model.eval()
    with torch.no_grad():
        print(f"{F.cross_entropy(model(X), Y).item():.5f}")
