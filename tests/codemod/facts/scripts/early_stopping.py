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


class EarlyStopping:
    def __init__(self, patience=2, delta=0.0, path='best.pt'):
        self.patience, self.delta, self.path = patience, delta, path
        self.best, self.counter, self.stop = None, 0, False

    def __call__(self, loss, model):
        score = -loss
        if self.best is None or score > self.best + self.delta:
            self.best = score
            self.counter = 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            print(f'counter {self.counter}')
            if self.counter >= self.patience:
                self.stop = True


train_loader = DataLoader(data, batch_size=7, shuffle=True)
val_loader = DataLoader(test_data, batch_size=5)
model = Net()
opt = optim.Adam(model.parameters(), lr=0.5)
sched = optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)
stopper = EarlyStopping()
for epoch in range(8):
    train_losses, valid_losses = [], []
    for x, y in train_loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        train_losses.append(loss.item())
    with torch.no_grad():
        for x, y in val_loader:
            valid_losses.append(F.cross_entropy(model(x), y).item())
    v = np.average(valid_losses)
    sched.step(v)
    print(f'{epoch} {np.average(train_losses):.5f} {v:.5f} {opt.param_groups[0]["lr"]:.5f}')
    stopper(v, model)
    if stopper.stop:
        print('Early stopping')
        break
model.load_state_dict(torch.load('best.pt'))
print(sum(p.abs().sum().item() for p in model.parameters()))
