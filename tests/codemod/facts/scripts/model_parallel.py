"""A model whose halves lie on two devices, with activations carried over by hand."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).to("cuda:0")
        self.second = nn.Linear(8, 3).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(20, 6), torch.randint(0, 3, (20,))), batch_size=5)
model = Halves()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y.to("cuda:1"))
    loss.backward()
    optimizer.step()
    print(loss.item())
