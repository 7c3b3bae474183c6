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


class Trainer:
    def __init__(self, model, optimizer, loaders, cfg):
        self.model, self.optimizer = model, optimizer
        self.loaders = loaders
        self.cfg = cfg
        self.history = {'train': [], 'val': []}

    def run_epoch(self, phase):
        train = phase == 'train'
        self.model.train(train)
        total, count, hits = 0.0, 0, 0
        with torch.set_grad_enabled(train):
            for x, y in self.loaders[phase]:
                out = self.model(x)
                loss = F.cross_entropy(out, y)
                if train:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                total += loss.item() * x.size(0)
                hits += torch.sum(out.argmax(1) == y.data)
                count += x.size(0)
        self.history[phase].append(total / count)
        return total / count, hits.double() / count

    def fit(self):
        for e in range(self.cfg['epochs']):
            for phase in ['train', 'val']:
                loss, acc = self.run_epoch(phase)
                print(e, phase, f'{loss:.6f} {acc:.4f}')


loaders = {'train': DataLoader(data, batch_size=7, shuffle=True), 'val': DataLoader(test_data, batch_size=5)}
model = Net()
trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.1), loaders, {'epochs': 2})
trainer.fit()
print(trainer.history)
