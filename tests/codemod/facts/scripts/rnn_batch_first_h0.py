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


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 8, 2, batch_first=True)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        h0 = torch.zeros(2, x.size(0), 8).to(x.device)
        c0 = torch.zeros(2, x.size(0), 8).to(x.device)
        out, _ = self.rnn(x, (h0, c0))
        return self.fc(out[:, -1, :])


loader = DataLoader(TensorDataset(torch.randn(29, 30), torch.randint(0, 3, (29,))), batch_size=7, shuffle=True)
model = RNN()
opt = optim.Adam(model.parameters(), lr=1e-2)
total_step = len(loader)
for epoch in range(2):
    for i, (images, labels) in enumerate(loader):
        images = images.reshape(-1, 5, 6)
        loss = F.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print('Epoch [{}/{}], Step [{}/{}], Loss: {:.6f}'.format(epoch + 1, 2, i + 1, total_step, loss.item()))
