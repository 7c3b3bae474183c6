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


from torch.utils.data import Subset

folds = np.array_split(np.arange(len(data)), 3)
scores = []
for k, held in enumerate(folds):
    rest = np.concatenate([f for j, f in enumerate(folds) if j != k])
    train_loader = DataLoader(Subset(data, rest), batch_size=7, shuffle=True)
    val_loader = DataLoader(Subset(data, held), batch_size=7)
    model = Net()
    opt = optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for x, y in train_loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
    model.eval()
    losses, hits = [], 0
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x)
            losses.append(F.cross_entropy(out, y).item())
            hits += (out.argmax(dim=1) == y).float().sum().item()
    scores.append(hits / len(held))
    print(f'fold {k}: {np.mean(losses):.6f} {scores[-1]:.6f}')
print('mean %.6f std %.6f' % (np.mean(scores), np.std(scores)))
