"""Classes in a registry, made by a class method; callbacks, and a base class that calls what is overridden."""

from abc import ABC, abstractmethod
from enum import Enum

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Linear(5, width)
        self.b = nn.Linear(width, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
X, Y = torch.randn(29, 5), torch.randint(0, 3, (29,))


class Kind(Enum):
    SMALL = "small"
    LARGE = "large"


MODELS = {}


def register(name):
    def inner(cls):
        MODELS[name] = cls
        return cls

    return inner


@register("small")
class Small(Net):
    def __init__(self):
        super().__init__(4)


@register("large")
class Large(Net):
    def __init__(self):
        super().__init__(16)

    def forward(self, x):
        return super().forward(x) * 0.5


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = self.n = 0

    def update(self, v, n=1):
        self.sum += v * n
        self.n += n

    @property
    def avg(self):
        return self.sum / self.n


class Callback:
    def on_batch(self, trainer, loss):
        pass

    def on_epoch(self, trainer):
        pass


class Printer(Callback):
    def on_batch(self, trainer, loss):
        trainer.meter.update(loss.item(), trainer.size)

    def on_epoch(self, trainer):
        print(f"{trainer.meter.avg:.5f}")
        trainer.meter.reset()


class Checkpoint(Callback):
    def on_epoch(self, trainer):
        torch.save(trainer.model.state_dict(), "last.pt")


class Trainer:
    def __init__(self, model, callbacks=(), **options):
        self.__dict__.update(options)
        self.model, self.callbacks, self.meter = model, list(callbacks), Meter()
        self.optimizer = getattr(torch.optim, options.get("optim", "SGD"))(model.parameters(), lr=options["lr"])

    @classmethod
    def create(cls, name, *args, **kwargs):
        return cls(MODELS[name](), *args, **kwargs)

    def __call__(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def run(self, loader, epochs=2):
        for _ in range(epochs):
            for x, y in loader:
                self.size = len(x)
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                for c in self.callbacks:
                    c.on_batch(self, loss)
            for c in self.callbacks:
                c.on_epoch(self)


for kind in Kind:
    trainer = Trainer.create(kind.value, [Printer(), Checkpoint()], lr=0.1)
    trainer(DataLoader(TensorDataset(X, Y), 6, shuffle=True), epochs=2)


class Logger:
    def log(self, **kw):
        print(" ".join(f"{k} {v:.5f}" for k, v in kw.items()))


class Base(ABC):
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = self.build_model().to(self.device)
        self.optimizer = self.build_optimizer()
        self.loaders = self.build_loaders()
        self.on_start()

    @abstractmethod
    def build_model(self): ...
    def build_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), lr=self.cfg["lr"])

    @property
    def train_loader(self):
        return self.loaders[0]

    def on_start(self):
        self.best = None

    def on_epoch_end(self, epoch):
        self.log(epoch=epoch)

    def step(self, batch):
        raise NotImplementedError

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            self.model.train()
            for batch in self.train_loader:
                batch = [t.to(self.device) for t in batch]
                loss = self.step(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.log(loss=loss.item())
            self.on_epoch_end(epoch)


class Trainer(Logger, Base):
    def build_model(self):
        return Net()

    def build_loaders(self):
        d = TensorDataset(X, Y)
        return DataLoader(d, 6, shuffle=True), DataLoader(d, 10)

    def on_start(self):
        super().on_start()
        self.best = 0

    def step(self, batch):
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def on_epoch_end(self, epoch):
        right = 0
        self.model.eval()
        with torch.no_grad():
            for x, y in self.loaders[1]:
                right += (self.model(x.to(self.device)).argmax(1).cpu() == y).sum().item()
        self.best = max(self.best, right / 29)
        self.log(right=right, best=self.best)


Trainer({"lr": 0.1, "epochs": 2}).fit()
