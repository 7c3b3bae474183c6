import torch
import torch.nn as nn

import config
from utils import AverageMeter

criterion = nn.CrossEntropyLoss()


def train_one_epoch(model, loader, optimizer, epoch):
    model.train()
    meter = AverageMeter()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(config.device), y.to(config.device)
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        meter.update(loss.item(), x.size(0))
        if i % 2 == 0:
            print(epoch, i, f"{loss.item():.6f}")
    return meter.avg


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, y in loader:
        out = model(x.to(config.device))
        correct += (out.argmax(1).cpu() == y).sum().item()
        total += y.size(0)
    return correct / total
