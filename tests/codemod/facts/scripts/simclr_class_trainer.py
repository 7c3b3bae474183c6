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


class SimCLR:
    def __init__(self, model, optimizer, args):
        self.args = args
        self.model = model
        self.optimizer = optimizer
        self.criterion = nn.CrossEntropyLoss()

    def info_nce_loss(self, features):
        bs = features.shape[0] // self.args['n_views']
        labels = torch.cat([torch.arange(bs) for i in range(self.args['n_views'])], dim=0)
        labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
        features = F.normalize(features, dim=1)
        similarity_matrix = torch.matmul(features, features.T)
        mask = torch.eye(labels.shape[0], dtype=torch.bool)
        labels = labels[~mask].view(labels.shape[0], -1)
        similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
        positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
        negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
        logits = torch.cat([positives, negatives], dim=1)
        labels = torch.zeros(logits.shape[0], dtype=torch.long)
        return logits / self.args['temperature'], labels

    def train(self, loader):
        for epoch in range(2):
            for images, _ in loader:
                images = torch.cat(images, dim=0)
                features = self.model(images)
                logits, labels = self.info_nce_loss(features)
                loss = self.criterion(logits, labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                print(f'{loss.item():.6f} {(logits.argmax(1) == labels).float().mean().item():.5f}')


class Views(Dataset):
    def __init__(self):
        self.x = torch.randn(29, 6)

    def __len__(self):
        return 29

    def __getitem__(self, i):
        return [self.x[i], self.x[i] * 0.9 + 0.1], 0


model = Net(8)
opt = optim.Adam(model.parameters(), lr=1e-2)
SimCLR(model, opt, {'n_views': 2, 'temperature': 0.5}).train(DataLoader(Views(), batch_size=7, shuffle=True))
