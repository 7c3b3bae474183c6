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


class Env:
    def __init__(self):
        self.rng = np.random.RandomState(0)

    def reset(self):
        self.s = self.rng.randn(4).astype(np.float32)
        self.t = 0
        return self.s

    def step(self, a):
        self.s = (self.s + self.rng.randn(4) * 0.1 * (a + 1)).astype(np.float32)
        self.t += 1
        return self.s, float(self.s.sum()), self.t >= 6, {}


policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), nn.Softmax(dim=-1))
opt = optim.Adam(policy.parameters(), lr=1e-2)
env = Env()
for ep in range(4):
    s = env.reset()
    logps, rewards = [], []
    done = False
    while not done:
        probs = policy(torch.from_numpy(s).unsqueeze(0))
        dist = torch.distributions.Categorical(probs)
        a = dist.sample()
        logps.append(dist.log_prob(a))
        s, r, done, _ = env.step(a.item())
        rewards.append(r)
    R, returns = 0, []
    for r in rewards[::-1]:
        R = r + 0.9 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = torch.cat([-l * r for l, r in zip(logps, returns)]).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f'{loss.item():.6f} {sum(rewards):.5f}')
