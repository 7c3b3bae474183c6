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


class Pairs(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(29, 6), torch.randint(0, 3, (29,))

    def __len__(self):
        return 29

    def __getitem__(self, i):
        j = (i * 7 + 3) % 29
        return self.x[i], self.x[j], (self.y[i] == self.y[j]).float()


class Contrastive(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, o1, o2, label):
        d = F.pairwise_distance(o1, o2, keepdim=True)
        return torch.mean(label.unsqueeze(1) * d.pow(2) + (1 - label.unsqueeze(1)) * torch.clamp(self.margin - d, min=0.0).pow(2))


loader = DataLoader(Pairs(), batch_size=7, shuffle=True)
net = Net(4)
criterion = Contrastive()
opt = optim.Adam(net.parameters(), lr=1e-2)
counter, loss_history = [], []
for epoch in range(2):
    for i, batch in enumerate(loader, 0):
        img0, img1, label = batch
        o1, o2 = net(img0), net(img1)
        opt.zero_grad()
        l = criterion(o1, o2, label) + nn.CosineEmbeddingLoss()(o1, o2, 2 * label - 1)
        l.backward()
        opt.step()
        if i % 2 == 0:
            print("Epoch {}\n loss {:.6f}\n".format(epoch, l.item()))
            loss_history.append(l.item())
print(loss_history)
