"""An optimizer that the program defines, and attention whose shapes are put together from sizes."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset


class Momentum(Optimizer):
    """Momentum and weight decay, written out."""

    elementwise = True

    def __init__(self, params, lr=0.1, momentum=0.9, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                state = self.state[p]
                if len(state) == 0:
                    state["past"] = torch.zeros_like(p.data)
                past = state["past"]
                past.mul_(group["momentum"]).add_(grad)
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                p.data.add_(past, alpha=-group["lr"])


class Attention(nn.Module):
    def __init__(self, heads=2, size=4):
        super().__init__()
        self.heads, self.size = heads, size
        self.query, self.key = nn.Linear(6, heads * size), nn.Linear(6, heads * size)
        self.out = nn.Linear(heads * size, 3)

    def by_head(self, x):
        shape = x.size()[:-1] + (self.heads, self.size)
        return x.view(*shape).permute(0, 2, 1, 3)

    def forward(self, x):
        query, key = self.by_head(self.query(x)), self.by_head(self.key(x))
        weights = torch.matmul(query, key.transpose(-1, -2)).softmax(-1)
        context = torch.matmul(weights, key).permute(0, 2, 1, 3).contiguous()
        shape = context.size()[:-2] + (self.heads * self.size,)
        return self.out(context.view(*shape)[:, 0])


def train(model, loader):
    optimizer = Momentum(model.parameters())
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.5f}")


torch.manual_seed(0)
net = Attention()
data = TensorDataset(torch.randn(29, 5, 6), torch.randint(0, 3, (29,)))
train(net, DataLoader(data, batch_size=6))
torch.save(net.state_dict(), "net.pt")
