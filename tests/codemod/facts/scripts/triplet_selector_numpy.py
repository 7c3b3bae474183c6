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


from itertools import combinations


class Selector:
    def get_triplets(self, emb, labels):
        emb = emb.cpu().detach()
        dist = ((emb[:, None] - emb[None]) ** 2).sum(2).numpy()
        labels = labels.cpu().data.numpy()
        out = []
        for label in set(labels):
            mask = labels == label
            idx = np.where(mask)[0]
            if len(idx) < 2:
                continue
            neg = np.where(np.logical_not(mask))[0]
            if len(neg) == 0:
                continue
            for a, p in combinations(idx, 2):
                n = neg[np.argmin(dist[a, neg])]
                out.append([a, p, n])
        if len(out) == 0:
            out.append([0, 0, 0])
        return torch.LongTensor(np.array(out))


class OnlineTriplet(nn.Module):
    def __init__(self, margin, selector):
        super().__init__()
        self.margin, self.selector = margin, selector

    def forward(self, embeddings, target):
        t = self.selector.get_triplets(embeddings, target)
        ap = (embeddings[t[:, 0]] - embeddings[t[:, 1]]).pow(2).sum(1)
        an = (embeddings[t[:, 0]] - embeddings[t[:, 2]]).pow(2).sum(1)
        losses = F.relu(ap - an + self.margin)
        return losses.mean(), len(t)


loader = DataLoader(data, batch_size=7, shuffle=True)
model = Net(4)
loss_fn = OnlineTriplet(1.0, Selector())
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for x, y in loader:
        loss, n = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f'{loss.item():.6f} {n}')
