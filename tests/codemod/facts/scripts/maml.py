"""Meta-learning: each task's inner steps make fast weights, the outer loss is taken through them."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Tasks(Dataset):
    def __len__(self):
        return 13

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x, w = torch.randn(8, 3, generator=g), torch.randn(3, 1, generator=g)
        return x[:5], x[:5] @ w, x[5:], x[5:] @ w


net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(2):
    for support_x, support_y, query_x, query_y in DataLoader(Tasks(), batch_size=4, shuffle=True):
        losses = []
        for i in range(support_x.size(0)):
            fast = dict(net.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(functional_call(net, fast, (support_x[i],)), support_y[i])
                grads = torch.autograd.grad(inner, tuple(fast.values()), create_graph=True)
                fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
            losses.append(F.mse_loss(functional_call(net, fast, (query_x[i],)), query_y[i]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{epoch} {loss.item():.5f}")
