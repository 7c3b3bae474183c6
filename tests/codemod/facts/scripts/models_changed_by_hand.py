import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
test_data = TensorDataset(torch.randn(17, 6), torch.randint(0, 3, (17,)))
loader = DataLoader(data, batch_size=7, shuffle=True)


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def evaluate(model):
    model.eval()
    correct, total = 0, 0.0
    with torch.no_grad():
        for x, y in DataLoader(test_data, batch_size=5):
            x, y = x.to(device), y.to(device)
            out = model(x)
            total += F.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
    model.train()
    return f"{correct} {total / len(test_data):.5f}"


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay, self.backup = model, decay, {}
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters() if p.requires_grad}

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = ((1.0 - self.decay) * param.data + self.decay * self.shadow[name]).clone()

    def apply_shadow(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.backup[name] = param.data
                param.data = self.shadow[name]

    def restore(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                param.data = self.backup[name]
        self.backup = {}


class Critic(Net):
    def clip(self, c):
        for p in self.parameters():
            p.data.clamp_(-c, c)

    def penalty(self):
        return self.fc1.weight.pow(2).sum() + sum(p.abs().sum() for p in self.fc2.parameters())


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        m.bias.data.fill_(0.01)


model, critic = Net(), Critic(1)
critic.apply(init_weights)
opt, critic_opt = optim.Adam(model.parameters(), lr=0.02), optim.SGD(critic.parameters(), lr=0.01)
ema = EMA(model, 0.9)
start = [p.detach().clone() for p in model.parameters()]
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update()
        score = critic(x).mean() - critic(torch.randn_like(x)).mean() + 1e-3 * critic.penalty()
        critic_opt.zero_grad()
        score.backward()
        critic_opt.step()
        critic.clip(0.2)
        for p in critic.fc2.parameters():
            p.data.mul_(0.99)
        print(f"{loss.item():.6f} {score.item():.6f} {sum(p.abs().sum().item() for p in critic.parameters()):.5f}")
    ema.apply_shadow()
    print(evaluate(model))
    ema.restore()
    drift = sum(((p.data - q) ** 2).sum() for p, q in zip(model.parameters(), start))
    print(evaluate(model), f"{drift.item():.5f}")
vector = nn.utils.parameters_to_vector(model.parameters()).detach()
nn.utils.vector_to_parameters(vector * 0.5, model.parameters())
with torch.no_grad():
    model.fc1.weight[0] = 0.1
    model.fc2.bias.fill_(0)
print(evaluate(model), f"{vector.norm().item():.5f}")
torch.save({"model": model.state_dict(), "critic": critic.state_dict()}, "m.pt")
