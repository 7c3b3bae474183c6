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


loader = DataLoader(TensorDataset(torch.randn(13, 3, 8, 8), torch.rand(13, 2, 5)), batch_size=5, shuffle=True)
model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.AdaptiveAvgPool2d(2))
opt = optim.Adam(model.parameters(), lr=1e-2)


class YoloLoss(nn.Module):
    def __init__(self, lambda_coord=5.0):
        super().__init__()
        self.mse = nn.MSELoss(reduction='sum')
        self.lambda_coord = lambda_coord

    def forward(self, predictions, target):
        predictions = predictions.permute(0, 2, 3, 1).reshape(-1, 4, 5)[:, :2]
        exists = (target[..., 4] > 0.5).unsqueeze(-1).float()
        box = self.mse(exists * predictions[..., :2], exists * target[..., :2])
        obj = self.mse(torch.flatten(exists * predictions[..., 4:5]), torch.flatten(exists * target[..., 4:5]))
        noobj = self.mse(torch.flatten((1 - exists) * predictions[..., 4:5], start_dim=1),
                         torch.flatten((1 - exists) * target[..., 4:5], start_dim=1))
        return self.lambda_coord * box + obj + 0.5 * noobj


loss_fn = YoloLoss()
for epoch in range(2):
    mean_loss = []
    for batch_idx, (x, y) in enumerate(loader):
        out = model(x)
        loss = loss_fn(out, y)
        mean_loss.append(loss.item())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f'Mean loss was {sum(mean_loss) / len(mean_loss):.6f}')
