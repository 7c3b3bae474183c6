from collections import namedtuple
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset, default_collate


class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


Loaders = namedtuple("Loaders", ["train", "valid", "plain"])


class Blobs(Dataset):
    def __init__(self, rows, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 3, (rows,), generator=g)
        self.x = torch.randn(rows, 6, generator=g) + self.y[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return Batch(self.x[index], self.y[index])


class Plain(Blobs):
    def __getitem__(self, index):
        return self.x[index]


def build(config):
    options = {"batch_size": config.batch, "collate_fn": default_collate}
    return Loaders(
        train=DataLoader(Blobs(45, 1), shuffle=True, **options),
        valid=DataLoader(Blobs(21, 2), **options),
        plain=DataLoader(Plain(30, 3), shuffle=True, **options),
    )
