import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
test_data = TensorDataset(torch.randn(17, 6), torch.randint(0, 3, (17,)))


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


train_loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for x, y in train_loader:
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()


@torch.no_grad()
def predict(model, loader):
    model.eval()
    outs, targets = torch.tensor([]), torch.LongTensor([])
    for x, y in loader:
        outs = torch.cat((outs, model(x)))
        targets = torch.cat((targets, y), 0)
    return outs, targets


outs, targets = predict(model, DataLoader(test_data, batch_size=5))
print(outs.shape, F.cross_entropy(outs, targets).item(), (outs.argmax(1) == targets).float().mean().item())
with torch.no_grad():
    logits = torch.cat([model(x) for x, _ in DataLoader(test_data, batch_size=5)])
    labels = torch.cat([y for _, y in DataLoader(test_data, batch_size=5)])
print(logits.sum().item(), (logits.argmax(1) == labels).sum().item() / len(labels))
