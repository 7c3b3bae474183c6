"""The models and data that all contenders train: one file, so that the work is the same.

GPT-2's shape, a convolutional network of ResNet-50's shape, and a small perceptron whose steps are all overhead. No
dropout, so that losses can be compared number by number. Data are synthetic but not noise: losses fall as in training.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset


@dataclass(frozen=True)
class Shape:
    """Sizes of a GPT."""

    layers: int
    heads: int
    width: int
    length: int = 1024
    words: int = 50304  # GPT-2 has 50,257: a multiple of 64 spares the GPU a slow kernel, and loops round up to it


@dataclass(frozen=True)
class Stages:
    """Sizes of a convolutional network, and the side of its images in pixels."""

    depths: tuple[int, ...]
    width: int
    side: int
    classes: int


GPTS = {
    "gpt2-124m": Shape(12, 12, 768),
    "gpt2-774m": Shape(36, 20, 1280),
    "gpt2-tiny": Shape(2, 2, 32, length=32, words=128),
}
CONVNETS = {
    "convnet": Stages((3, 4, 6, 3), 64, 224, 1000),
    "convnet-tiny": Stages((1, 1), 8, 16, 4),
}
MLPS = {"mlp": 256, "mlp-tiny": 16}
FEATURES = 64
CLASSES = 16


def shape_of(name: str) -> Shape:
    """Sizes of a GPT by its name, or of one of another width and depth: gpt2-1600x48."""
    if name in GPTS:
        return GPTS[name]
    width, layers = name.removeprefix("gpt2-").split("x")
    return Shape(int(layers), max(1, int(width) // 64), int(width))


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return y


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return y


class GPT(nn.Module):
    """GPT-2 with tied embeddings: tokens of shape (batch, length) to logits of shape (batch, length, words)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.words, shape.width)
        self.places = nn.Embedding(shape.length, shape.width)
        self.blocks = nn.ModuleList([Block(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)
        self.head.weight = self.words.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Bottleneck(nn.Module):
    """Three convolutions around a sum."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.side: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.side = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.side(x))


class ConvNet(nn.Module):
    """Bottlenecks in stages: images of shape (batch, 3, side, side) to logits of shape (batch, classes)."""

    def __init__(self, stages: Stages) -> None:
        super().__init__()
        width = stages.width
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        inputs = width
        for i, depth in enumerate(stages.depths):
            for j in range(depth):
                layers.append(Bottleneck(inputs, width * 2**i, 2 if i and not j else 1))
                inputs = 4 * width * 2**i
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, stages.classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(images).mean((2, 3)))
        return logits


class Perceptron(nn.Module):
    """Four small layers: features of shape (batch, 64) to logits of shape (batch, 16)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, CLASSES),
        )

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.layers(features)
        return logits


class Tokens(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a stream with a few frequent words, as in text: int64 inputs and targets of shape (length,)."""

    def __init__(self, count: int, shape: Shape) -> None:
        drawn = torch.rand(min(count, 512) * shape.length + 1, generator=torch.Generator().manual_seed(1))
        self.stream = (drawn.pow(4) * shape.words).to(torch.int64)
        self.count, self.length = count, shape.length

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        start = index * self.length % (len(self.stream) - self.length)
        return self.stream[start : start + self.length], self.stream[start + 1 : start + self.length + 1]


class Images(Dataset[tuple[Tensor, int]]):
    """Images of bytes, shape (3, side, side), each class brighter than the one before, and their classes."""

    def __init__(self, count: int, stages: Stages) -> None:
        drawn = torch.rand(64, 3, stages.side, stages.side, generator=torch.Generator().manual_seed(1))
        self.labels = [i * stages.classes // 64 for i in range(64)]
        light = torch.linspace(0.5, 1.0, 64).view(-1, 1, 1, 1)
        self.images = (drawn * light * 255).to(torch.uint8)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        place = index * 29 % 64
        return self.images[place], self.labels[place]


class Points(Dataset[tuple[Tensor, Tensor]]):
    """Features of shape (64,) and the class that a fixed linear map gives them."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.features = torch.randn(min(count, 4096), FEATURES, generator=generator)
        self.labels = (self.features @ torch.randn(FEATURES, CLASSES, generator=generator)).argmax(1)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        place = index % len(self.features)
        return self.features[place], self.labels[place]
