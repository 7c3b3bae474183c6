import os
from collections import defaultdict

import torch

from .. import data


class Trainer:
    """What all trainers share; subclasses say what a loss is."""

    def __init__(self, net, options):
        self.options = options
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.net = net.to(self.device)
        self.loaders = data.loaders(options)
        self.optimizer = self.make_optimizer()
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, options.epochs)
        self.history = defaultdict(list)
        self.best = float("inf")

    def make_optimizer(self):
        return torch.optim.SGD(self.net.parameters(), lr=self.options.lr, momentum=0.9)

    def loss(self, batch):
        raise NotImplementedError

    def run(self):
        for epoch in range(self.options.epochs):
            for phase in ("train", "val"):
                self.epoch(phase)
            self.scheduler.step()
            if self.history["val"][-1] < self.best:
                self.best = self.history["val"][-1]
                self.save("best.pt")
            print(f"epoch {epoch} best {self.best:.5f}")

    def epoch(self, phase):
        self.net.train(phase == "train")
        summed, rows = 0.0, 0
        with torch.set_grad_enabled(phase == "train"):
            for batch in self.loaders[phase]:
                loss = self.loss(batch)
                if phase == "train":
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                summed += loss.item() * len(batch["image"])
                rows += len(batch["image"])
        self.history[phase].append(summed / rows)

    def save(self, name):
        os.makedirs("out", exist_ok=True)
        torch.save(self.net.state_dict(), os.path.join("out", name))
