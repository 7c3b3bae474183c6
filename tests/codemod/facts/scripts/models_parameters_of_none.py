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


class Tables(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.fixed = nn.Embedding.from_pretrained(vectors)
        self.tuned = nn.Embedding.from_pretrained(vectors.clone(), freeze=False, padding_idx=0)

    def forward(self, i):
        return self.fixed(i) + self.tuned(i)


class Trainer:
    def __init__(self):
        self.model = Net()
        self.tables = Tables(torch.randn(12, 6))
        self.extra = nn.Embedding.from_pretrained(torch.randn(12, 6), freeze=False)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.centers = nn.Parameter(torch.randn(3, 3))
        self.weights = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(1))]
        trained = [p for p in self.tables.parameters() if p.requires_grad]
        everything = [*self.model.parameters(), *trained, *self.extra.parameters()]
        self.opt = optim.Adam(everything + self.weights, lr=0.02)
        self.alpha_opt = optim.Adam([self.log_alpha], lr=0.02)
        self.center_opt = optim.SGD([{"params": [self.centers], "lr": 0.1}], lr=0.5)

    def step(self, x, i, y):
        out = self.model(x + self.tables(i) + self.extra(i)) * self.weights[1]
        entropy = -(out.softmax(1) * out.log_softmax(1)).sum(1)
        first, second = F.cross_entropy(out, y), 0.1 * ((out - self.centers[y]) ** 2).sum(1).mean()
        w = self.weights[0]
        loss = torch.exp(-w[0]) * first + w[0] + torch.exp(-w[1]) * second + w[1]
        loss = loss - self.log_alpha.exp().detach() * entropy.mean()
        self.opt.zero_grad()
        self.center_opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.center_opt.step()
        alpha_loss = -(self.log_alpha.exp() * (entropy.detach() - 0.5)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()
        return loss.item(), self.log_alpha.item()


items = torch.randint(0, 12, (29,))
loader = DataLoader(TensorDataset(*data.tensors[:1], items, data.tensors[1]), batch_size=7, shuffle=True)
trainer = Trainer()
for epoch in range(2):
    for x, i, y in loader:
        print("%.6f %.6f" % trainer.step(x, i, y))
print(trainer.centers.norm().item(), trainer.tables.tuned.weight.sum().item(), trainer.extra.weight.sum().item())
torch.save({"centers": trainer.centers, "alpha": trainer.log_alpha, "weights": trainer.weights}, "t.pt")
