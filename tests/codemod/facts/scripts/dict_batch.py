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


class D(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(29, 6), torch.randint(0, 3, (29,))

    def __len__(self):
        return 29

    def __getitem__(self, i):
        return {'input': self.x[i], 'label': self.y[i], 'idx': i}


loader = DataLoader(D(), batch_size=7, shuffle=True)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    seen = []
    for batch in loader:
        batch = {k: v.to('cpu') for k, v in batch.items()}
        out = model(batch['input'])
        loss = F.cross_entropy(out, batch['label'])
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen.extend(batch['idx'].tolist())
        print(f'{loss.item():.6f}', len(batch['label']))
    print(seen)
