"""After each epoch as many samples are made as the last batch had rows; the number is named, passed on and printed."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
data = torch.randn(29, 4)
loader = DataLoader(TensorDataset(data), batch_size=7, shuffle=True)


class Process:
    def __init__(self, steps):
        self.steps = steps
        self.rate = torch.linspace(0.1, 0.3, steps)

    def noised(self, x, t):
        noise = torch.randn_like(x)
        return x + self.rate[t][:, None] * noise, noise

    def times(self, n):
        return torch.randint(1, self.steps, (n,))

    def sample(self, net, n):
        print(f"sampling {n}")
        net.eval()
        with torch.no_grad():
            x = torch.randn((n, 4))
            for i in reversed(range(1, self.steps)):
                t = (torch.ones(n) * i).long()
                noise = torch.randn_like(x) if i > 1 else torch.zeros_like(x)
                x = x - self.rate[t][:, None] * net(x) + 0.1 * noise
        net.train()
        return x


net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
process = Process(5)
for epoch in range(2):
    for (batch,) in loader:
        noisy, noise = process.noised(batch, process.times(batch.shape[0]))
        loss = nn.functional.mse_loss(net(noisy), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
    made = process.sample(net, n=batch.shape[0])
    print(made.shape[0], f"{made.mean().item():.5f} {made[0, 0].item():.5f}")
