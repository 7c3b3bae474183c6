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


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(6, 3)
        self.critic = nn.Linear(6, 1)

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = torch.distributions.Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


agent = Agent()
opt = optim.Adam(agent.parameters(), lr=1e-2)
obs = torch.randn(24, 6)
with torch.no_grad():
    actions, logprobs, _, values = agent.get_action_and_value(obs)
advantages = torch.randn(24)
returns = advantages + values.view(-1)
b_inds = np.arange(24)
np.random.seed(0)
for epoch in range(2):
    np.random.shuffle(b_inds)
    for start in range(0, 24, 8):
        mb = b_inds[start:start + 8]
        _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs[mb], actions[mb])
        logratio = newlogprob - logprobs[mb]
        ratio = logratio.exp()
        with torch.no_grad():
            approx_kl = ((ratio - 1) - logratio).mean()
            clipfrac = ((ratio - 1.0).abs() > 0.2).float().mean().item()
        adv = advantages[mb]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        v_loss = 0.5 * ((newvalue.view(-1) - returns[mb]) ** 2).mean()
        loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        print(f'{loss.item():.6f} {approx_kl.item():.6f} {clipfrac:.4f} {v_loss.item():.6f}')
