import torch.nn as nn

from .blocks import Block


class Small(nn.Module):
    def __init__(self, classes, width=6):
        super().__init__()
        self.stem = Block(1, width)
        self.body = Block(width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        return self.head(self.body(self.stem(x)))


def small_net(classes):
    return Small(classes)
