"""A flatten written with the batch size of the options, kept by the model."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return self.fc(x).view(self.batch, -1).mean(1)


loader = DataLoader(TensorDataset(torch.randn(20, 8), torch.randn(20)), batch_size=args.batch_size, drop_last=True)
model = Net(args.batch_size)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x)
    loss = out.pow(2).mean() + (out.sum() - y.sum()).pow(2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
