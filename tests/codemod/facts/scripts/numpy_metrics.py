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
model = Net(1)
opt = optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(2):
    y_true, y_score = [], []
    for x, y in train_loader:
        y = (y > 0).float()
        out = model(x).view(-1)
        loss = criterion(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        y_true.append(y.detach().cpu().numpy())
        y_score.append(torch.sigmoid(out).detach().cpu().numpy())
    y_true, y_score = np.concatenate(y_true), np.concatenate(y_score)
    pred = (y_score > 0.5).astype(int)
    tp = np.sum((pred == 1) & (y_true == 1))
    print(f'{tp} {np.mean(pred == y_true):.6f} {y_score.mean():.6f} {len(y_true)}')
all_p = np.zeros((0,))
allp = []
with torch.no_grad():
    for x, y in DataLoader(test_data, batch_size=5):
        p = torch.sigmoid(model(x)).squeeze(1)
        all_p = np.append(all_p, p.numpy())
        allp += p.tolist()
print(all_p.round(5), sum(allp))
