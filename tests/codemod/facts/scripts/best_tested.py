import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
X, Y = torch.randn(31, 4), torch.randint(0, 3, (31,))
data = TensorDataset(X, Y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.f(x)


def train(net, optimizer, loader):
    net.train()
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate(net, loader):
    net.eval()
    right = n = 0
    with torch.no_grad():
        for x, y in loader:
            right += (net(x).argmax(1) == y).sum().item()
            n += y.size(0)
    return right / n


scores = []
for k in range(3):
    ids = [i for i in range(31) if i % 3 != k]
    train_loader = DataLoader(Subset(data, ids), batch_size=6, shuffle=True)
    val_loader = DataLoader(Subset(data, [i for i in range(31) if i % 3 == k]), batch_size=6)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    best = -1.0
    for epoch in range(2):
        loss = train(net, optimizer, train_loader)
        acc = evaluate(net, val_loader)
        if acc > best:
            best = acc
            torch.save({"model": net.state_dict(), "fold": k}, f"fold{k}.pt")
        print(f"fold {k} epoch {epoch} {loss:.5f} {acc:.4f}")
    scores.append(best)

winner = Net()
winner.load_state_dict(torch.load(f"fold{scores.index(max(scores))}.pt")["model"])
test_loader = DataLoader(data, batch_size=8)
print(f"{evaluate(winner, test_loader):.4f}")
