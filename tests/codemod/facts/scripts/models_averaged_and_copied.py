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


from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.bn = nn.BatchNorm1d(16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.bn(self.fc1(x))))


loader = DataLoader(data, batch_size=8, shuffle=True)
model = Normed()
opt = optim.SGD(model.parameters(), lr=0.1)
swa_model = AveragedModel(model)
ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
target = copy.deepcopy(model).eval().requires_grad_(False)
scheduler = SWALR(opt, swa_lr=0.05)
best, best_state, best_copy, best_model = 1e9, None, None, None
for epoch in range(3):
    for x, y in loader:
        with torch.no_grad():
            soft = target(x).softmax(1)
        out = model(x)
        loss = F.cross_entropy(out, y) + 0.1 * ((out.softmax(1) - soft) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema_model.update_parameters(model)
        for t, p in zip(target.parameters(), model.parameters()):
            t.data.copy_(0.1 * p.data + 0.9 * t.data)
        print(f"{loss.item():.6f}")
    if epoch >= 1:
        swa_model.update_parameters(model)
        scheduler.step()
    shown = evaluate(model)
    if float(shown.split()[1]) < best:
        best = float(shown.split()[1])
        best_state = copy.deepcopy(model.state_dict())
        best_copy = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        best_model = copy.deepcopy(model)
    print(shown, evaluate(ema_model), evaluate(target))
update_bn(loader, swa_model)
print(evaluate(swa_model), swa_model.n_averaged.item(), evaluate(best_model))
model.load_state_dict(best_copy)
print(evaluate(model), all(torch.equal(best_state[k], best_copy[k]) for k in best_state))
torch.save({"swa": swa_model.state_dict(), "module": swa_model.module.state_dict(), "best": best_state}, "a.pt")
