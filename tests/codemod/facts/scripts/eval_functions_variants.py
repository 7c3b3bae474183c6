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
val = DataLoader(test_data, batch_size=5)
model = Net()
opt = optim.Adam(model.parameters(), lr=1e-2)


def accuracy(out, labels):
    _, preds = torch.max(out, dim=1)
    return torch.tensor(torch.sum(preds == labels).item() / len(preds))


def validation_step(model, batch):
    images, labels = batch
    out = model(images)
    return {'val_loss': F.cross_entropy(out, labels).detach(), 'val_acc': accuracy(out, labels)}


def validation_epoch_end(outputs):
    loss = torch.stack([x['val_loss'] for x in outputs]).mean()
    acc = torch.stack([x['val_acc'] for x in outputs]).mean()
    return {'val_loss': loss.item(), 'val_acc': acc.item()}


@torch.no_grad()
def evaluate(model, val_loader):
    model.eval()
    outputs = [validation_step(model, batch) for batch in val_loader]
    return validation_epoch_end(outputs)


for epoch in range(2):
    model.train()
    train_losses = []
    for batch in loader:
        images, labels = batch
        loss = F.cross_entropy(model(images), labels)
        train_losses.append(loss)
        loss.backward()
        opt.step()
        opt.zero_grad()
    result = evaluate(model, val)
    result['train_loss'] = torch.stack(train_losses).mean().item()
    print("Epoch [{}], train_loss: {:.5f}, val_loss: {:.5f}, val_acc: {:.5f}".format(
        epoch, result['train_loss'], result['val_loss'], result['val_acc']))
