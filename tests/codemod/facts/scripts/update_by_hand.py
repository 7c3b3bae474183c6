"""Columns of text, no optimizer: parameters are moved by hand, with momentum; the best model is pickled and loaded."""

import os

import torch
import torch.nn as nn

WORDS, SPAN = 17, 6


class Tagger(nn.Module):
    def __init__(self, kind, width=10):
        super().__init__()
        self.kind, self.width = kind, width
        self.embed = nn.Embedding(WORDS, width)
        self.cells = getattr(nn, kind)(width, width)
        self.out = nn.Linear(width, WORDS)

    def forward(self, tokens, state):
        found, state = self.cells(self.embed(tokens), state)
        return self.out(found).view(-1, WORDS), state

    def start(self, columns):
        like = next(self.parameters())
        if self.kind == "LSTM":
            return like.new_zeros(1, columns, self.width), like.new_zeros(1, columns, self.width)
        return like.new_zeros(1, columns, self.width)


def in_columns(words, columns):
    length = len(words) // columns
    return words[: length * columns].view(columns, -1).t().contiguous()


def chunk(source, begin):
    length = min(SPAN, len(source) - 1 - begin)
    return source[begin : begin + length], source[begin + 1 : begin + 1 + length].view(-1)


def detached(state):
    return state.detach() if isinstance(state, torch.Tensor) else tuple(detached(part) for part in state)


def follow(net, speed, rate):
    with torch.no_grad():
        for weight, past in zip(net.parameters(), speed):
            past.mul_(0.5).add_(weight.grad)
            weight -= rate * past


def evaluate(net, source):
    net.eval()
    state, total = net.start(source.size(1)), 0.0
    with torch.no_grad():
        for begin in range(0, source.size(0) - 1, SPAN):
            tokens, wanted = chunk(source, begin)
            scores, state = net(tokens, state)
            total += len(tokens) * loss_of(scores, wanted).item()
    return total / (len(source) - 1)


torch.manual_seed(3)
text = torch.randint(0, WORDS, (400,)).cumsum(0) % WORDS
train, valid = in_columns(text[:300], 7), in_columns(text[300:], 5)
loss_of = nn.CrossEntropyLoss()
for kind in ("LSTM", "GRU"):
    net = Tagger(kind)
    speed = [torch.zeros_like(weight) for weight in net.parameters()]
    best, rate = None, 1.0
    for epoch in range(3):
        net.train()
        state = net.start(7)
        for begin in range(0, train.size(0) - 1, SPAN):
            tokens, wanted = chunk(train, begin)
            net.zero_grad()
            state = detached(state)
            scores, state = net(tokens, state)
            loss = loss_of(scores, wanted)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            follow(net, speed, rate)
        found = evaluate(net, valid)
        print(f"{kind} {epoch} loss {loss.item():.5f} valid {found:.5f}")
        if best is None or found < best:
            best = found
            torch.save(net, "tagger.pt")
        else:
            rate /= 4
    net = torch.load("tagger.pt", weights_only=False)
    print(f"best {evaluate(net, valid):.5f}")
os.remove("tagger.pt")
