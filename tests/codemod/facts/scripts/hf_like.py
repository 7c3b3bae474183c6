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


from types import SimpleNamespace
from dataclasses import dataclass


@dataclass
class Output:
    loss: torch.Tensor = None
    logits: torch.Tensor = None


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, inputs, labels=None):
        logits = self.net(inputs)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits, labels)
        return Output(loss=loss, logits=logits)


model = Classifier()
opt = optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    model.train()
    total_loss = 0
    for x, y in DataLoader(data, batch_size=7, shuffle=True):
        outputs = model(x, labels=y)
        loss = outputs.loss
        total_loss += loss.item()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f'{total_loss / 5:.6f}')
    model.eval()
    preds, refs = [], []
    for x, y in DataLoader(test_data, batch_size=5):
        with torch.no_grad():
            outputs = model(x)
        preds.extend(torch.argmax(outputs.logits, dim=-1).cpu().numpy())
        refs.extend(y.cpu().numpy())
    print(np.mean(np.array(preds) == np.array(refs)), len(preds))
