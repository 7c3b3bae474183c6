"""Actor-critic that collects from an environment: an action sampled at every step, a loss after each episode."""

import random

import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(1)
random.seed(1)


class Corridor:
    def reset(self):
        self.at, self.steps = 2, 0
        return torch.eye(6)[self.at]

    def step(self, action):
        self.at = max(0, min(5, self.at + (1 if action == 1 else -1) * (1 if random.random() < 0.9 else -1)))
        self.steps += 1
        return torch.eye(6)[self.at], float(self.at == 5), self.at == 5 or self.steps > 12


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 1)
        self.saved = []
        self.rewards = []

    def forward(self, x):
        h = torch.relu(self.body(x))
        return torch.softmax(self.actor(h), dim=-1), self.critic(h)


model, env = Policy(), Corridor()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
running = 10.0
for episode in range(5):
    state, done = env.reset(), False
    while not done:
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        model.saved.append((m.log_prob(action), value))
        state, reward, done = env.step(action.item())
        model.rewards.append(reward)
    total, returns, losses = 0.0, [], []
    for r in model.rewards[::-1]:
        total = r + 0.9 * total
        returns.insert(0, total)
    for (logp, value), target in zip(model.saved, returns):
        losses.append(-logp * (target - value.item()) + (value - target).pow(2).sum())
    optimizer.zero_grad()
    loss = torch.stack(losses).sum()
    loss.backward()
    optimizer.step()
    running = 0.05 * len(model.rewards) + 0.95 * running
    print(f"{episode} {loss.item():.4f} {running:.3f} {len(model.rewards)}")
    del model.rewards[:], model.saved[:]
