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


import random
from collections import deque, namedtuple

Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))
random.seed(0)


class Memory:
    def __init__(self, cap):
        self.memory = deque([], maxlen=cap)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return random.sample(self.memory, n)

    def __len__(self):
        return len(self.memory)


policy, target = Net(2), Net(2)
target.load_state_dict(policy.state_dict())
opt = optim.AdamW(policy.parameters(), lr=1e-2)
memory = Memory(100)
for i in range(40):
    memory.push(torch.randn(1, 6), torch.tensor([[random.randrange(2)]]), torch.randn(1, 6), torch.randn(1))


def optimize_model():
    if len(memory) < 8:
        return
    transitions = memory.sample(8)
    batch = Transition(*zip(*transitions))
    state = torch.cat(batch.state)
    action = torch.cat(batch.action)
    reward = torch.cat(batch.reward)
    nxt = torch.cat(batch.next_state)
    q = policy(state).gather(1, action)
    with torch.no_grad():
        v = target(nxt).max(1).values
    loss = nn.SmoothL1Loss()(q, (v * 0.9 + reward).unsqueeze(1))
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    opt.step()
    return loss.item()


for step in range(5):
    print(f'{optimize_model():.6f}')
    tsd, psd = target.state_dict(), policy.state_dict()
    for key in psd:
        tsd[key] = psd[key] * 0.1 + tsd[key] * 0.9
    target.load_state_dict(tsd)
