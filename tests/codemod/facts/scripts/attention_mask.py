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


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 8, padding_idx=0)
        self.pos = nn.Parameter(torch.zeros(1, 7, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, ids, mask):
        x = self.emb(ids) + self.pos[:, :ids.size(1)]
        h = self.enc(x, src_key_padding_mask=~mask)
        pooled = (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return self.head(pooled)


ids = torch.randint(1, 12, (29, 7))
ids[5:15, 4:] = 0
loader = DataLoader(TensorDataset(ids, torch.randint(0, 2, (29,))), batch_size=7, shuffle=True)
model = Attn()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        mask = x != 0
        loss = F.cross_entropy(model(x, mask), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f}')
