import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(29, 4), torch.randint(0, 3, (29,)))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class data_prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        self.next_input = self.next_input.to(device).float().sub_(0.5).div_(2.0)
        self.next_target = self.next_target.to(device)

    def next(self):
        input = self.next_input
        target = self.next_target
        self.preload()
        return input, target


def lookahead(loader):
    it = iter(loader)
    last = next(it)
    for item in it:
        yield last, False
        last = item
    yield last, True


class Trainer:
    def __init__(self):
        self.current = self.upcoming = None

    def fetch(self):
        self.current = self.upcoming
        try:
            x, y = next(self.iterator)
            self.upcoming = {"x": x.to(device), "y": y.to(device)}
        except StopIteration:
            self.upcoming = None

    def compute_loss(self):
        return F.cross_entropy(model(self.current["x"]), self.current["y"])

    def epoch(self, n):
        self.iterator = iter(loader)
        self.fetch()
        self.fetch()
        while self.current is not None:
            loss = self.compute_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{n} {loss.item():.5f}")
            self.fetch()


prefetcher = data_prefetcher(loader)
input, target = prefetcher.next()
total = seen = hits = 0
while input is not None:
    output = model(input)
    loss = F.cross_entropy(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item() * input.size(0)
    seen += input.size(0)
    hits += (output.argmax(1) == target).sum().item()
    print(f"{loss.item():.5f} {input.size(0)}")
    input, target = prefetcher.next()
print(f"{total / seen:.5f} {hits / seen:.4f}")

for (x, y), is_last in lookahead(loader):
    out = model(x.to(device))
    loss = F.cross_entropy(out, y.to(device))
    acc = (out.argmax(1) == y.to(device)).float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f} {acc.item():.4f} {is_last}")

for n in range(2):
    Trainer().epoch(n)
