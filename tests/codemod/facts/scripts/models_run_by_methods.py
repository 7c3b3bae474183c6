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


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.enc, self.dec, self.head = nn.Linear(8, 8), nn.Linear(4, 6), nn.Linear(4, 3)
        self.fc = nn.Linear(8, 3, bias=False)

    def encode(self, x):
        return self.enc(self.backbone(x)).chunk(2, dim=1)

    def decode(self, z):
        return self.dec(z)

    def loss(self, x):
        mu, logvar = self.encode(x)
        return F.mse_loss(self.decode(mu), x) - 0.01 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self.head(self.encode(x)[0]), y)

    @torch.no_grad()
    def generate(self, n):
        return self.decode(torch.randn(n, 4))

    def forward(self, x):
        return self.decode(self.encode(x)[0])


model = VAE()
opt = optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for batch in loader:
        x, y = batch
        loss = model.loss(x) + model.training_step(batch)
        mu, _ = model.encode(x)
        loss = loss + 0.1 * F.l1_loss(model.decode(mu), x)
        features = model.backbone(x)
        cosine = F.linear(F.normalize(features), F.normalize(model.fc.weight)) * 4.0
        loss = loss + F.cross_entropy(cosine, y) + 0.01 * features.abs().mean()
        weight = model.fc.weight
        orthogonal = ((weight @ weight.t() - torch.eye(3)) ** 2).sum()
        lasso = sum(p.abs().sum() for n, p in model.named_parameters() if not n.endswith("bias"))
        loss = loss + 1e-2 * orthogonal + 1e-4 * lasso
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.6f} {orthogonal.item():.6f} {lasso.item():.5f}")
    print(f"{model.generate(4).sum().item():.5f} {model.fc.weight[0].tolist()}")
