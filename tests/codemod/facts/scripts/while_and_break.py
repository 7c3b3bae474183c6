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


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
sched = optim.lr_scheduler.LambdaLR(opt, lambda s: 1 / (1 + s))
it, done, smooth, best = 0, False, None, float('inf')
while not done:
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        if torch.isnan(loss) or not torch.isfinite(loss).all():
            print('nan')
            continue
        opt.zero_grad(); loss.backward(); opt.step(); sched.step()
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        it += 1
        if loss < best:
            best = loss.item()
        if it % 3 == 0: print(it, f'{smooth:.6f} {best:.6f} {sched.get_last_lr()[0]:.5f}')
        if it >= 11:
            done = True
            break
