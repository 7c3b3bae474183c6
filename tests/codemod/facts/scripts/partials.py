import functools
from functools import partial

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
Loader = partial(DataLoader, batch_size=13, shuffle=True)
make_opt = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
loss_fn = partial(F.cross_entropy, label_smoothing=0.1)
sum_loss = partial(F.cross_entropy, reduction="sum")
LOSSES = {"ce": loss_fn, "nll": partial(F.nll_loss)}
block = partial(nn.Linear, bias=False)


def train_step(model, opt, loss_fn, batch, clip=None):
    x, y = batch
    loss = loss_fn(model(x), y)
    opt.zero_grad()
    loss.backward()
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    opt.step()
    return loss.item()


def evaluate(model, loader, metric):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += metric(model(x), y).item()
    return total / len(loader.dataset)


x = torch.randn(50, 6)
y = x.argmax(1)
model = nn.Sequential(block(6, 12), nn.ReLU(), block(12, 6))
opt = make_opt(model.parameters())
step = partial(train_step, model, opt, LOSSES["ce"], clip=1.0)
loader = Loader(TensorDataset(x, y))
for epoch in range(2):
    total = 0.0
    for batch in loader:
        total += step(batch)
    print(epoch, f"{total / len(loader):.6f} {evaluate(model, loader, sum_loss):.6f}")
