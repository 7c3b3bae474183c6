"""A hidden state made inside the forward for the batch size of the options."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=4)
args = parser.parse_args()
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size
        self.rnn = nn.LSTM(3, 5, batch_first=True)
        self.fc = nn.Linear(5, 1)

    def init_hidden(self):
        return torch.zeros(1, self.batch_size, 5), torch.zeros(1, self.batch_size, 5)

    def forward(self, x):
        out, _ = self.rnn(x, self.init_hidden())
        return self.fc(out[:, -1]).squeeze(1)


loader = DataLoader(TensorDataset(torch.randn(20, 6, 3), torch.randn(20)), batch_size=args.batch_size, drop_last=True)
model = Net(args.batch_size)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
