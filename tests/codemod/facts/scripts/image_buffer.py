"""Buffers of past images: one list outlives the batches, another is filled sample by sample and joined again."""

import itertools
import random

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
random.seed(0)


class ReplayBuffer:
    def __init__(self, max_size):
        self.max_size, self.data = max_size, []

    def push_and_pop(self, data):
        to_return = []
        for element in data.data:
            element = torch.unsqueeze(element, 0)
            if len(self.data) < self.max_size:
                self.data.append(element)
                to_return.append(element)
            elif random.uniform(0, 1) > 0.5:
                i = random.randint(0, self.max_size - 1)
                to_return.append(self.data[i].clone())
                self.data[i] = element
            else:
                to_return.append(element)
        return Variable(torch.cat(to_return))


class ImagePool:
    def __init__(self, pool_size):
        self.pool_size, self.num_imgs, self.images = pool_size, 0, []

    def query(self, images):
        if self.pool_size == 0:
            return images
        return_images = []
        for image in images:
            image = torch.unsqueeze(image.data, 0)
            if self.num_imgs < self.pool_size:
                self.num_imgs = self.num_imgs + 1
                self.images.append(image)
                return_images.append(image)
            elif random.uniform(0, 1) > 0.5:
                random_id = random.randint(0, self.pool_size - 1)
                tmp = self.images[random_id].clone()
                self.images[random_id] = image
                return_images.append(tmp)
            else:
                return_images.append(image)
        return torch.cat(return_images, 0)


A, B = torch.randn(27, 6), torch.randn(27, 6) + 1
loader = DataLoader(TensorDataset(A, B), batch_size=5, shuffle=True)
there, back = nn.Linear(6, 6), nn.Linear(6, 6)
judges = [nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2)]
opt_g = torch.optim.Adam(itertools.chain(there.parameters(), back.parameters()), lr=1e-2)
opt_d = torch.optim.Adam(itertools.chain(judges[0].parameters(), judges[1].parameters()), lr=1e-2)
buffer, pool = ReplayBuffer(8), ImagePool(8)
mse, l1 = nn.MSELoss(), nn.L1Loss()
for epoch in range(2):
    seen, kept = 0, np.zeros((27, 6), dtype=np.float32)
    for a, b in loader:
        valid, fake = torch.ones(a.size(0), 1), torch.zeros(a.size(0), 1)
        opt_g.zero_grad()
        fake_b, fake_a = there(a), back(b)
        loss_g = mse(judges[1](fake_b), valid) + mse(judges[0](fake_a), valid) + l1(back(fake_b), a)
        loss_g.backward()
        opt_g.step()
        opt_d.zero_grad()
        old_a, old_b = buffer.push_and_pop(fake_a), pool.query(fake_b)
        loss_d = mse(judges[0](a), valid) + mse(judges[0](old_a.detach()), fake)
        loss_d = loss_d + mse(judges[1](b), valid) + mse(judges[1](old_b.detach()), fake)
        loss_d.backward()
        opt_d.step()
        kept[seen : seen + len(a)] = fake_a.detach().numpy()
        seen += len(a)
        print(f"{epoch} {seen} {loss_g.item():.4f} {loss_d.item():.4f}")
    print(np.round(kept.mean(0), 3))
