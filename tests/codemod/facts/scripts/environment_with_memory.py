# One network plays with batches of one row, and learns from batches of what it remembers.
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn

random.seed(2)
torch.manual_seed(2)
Event = namedtuple("Event", ("before", "move", "after", "gain", "last"))


class Store:
    def __init__(self, size):
        self.events = deque(maxlen=size)

    def add(self, *parts):
        self.events.append(Event(*parts))

    def draw(self, count):
        return Event(*zip(*random.sample(self.events, count)))


class Walk:
    def start(self):
        self.at, self.moves = [random.random(), random.random()], 0
        return self.at

    def go(self, move):
        self.moves += 1
        self.at = [0.8 * self.at[0] + 0.3 * move - 0.1, 0.9 * self.at[1] + 0.1 * self.at[0]]
        return self.at, 1.0 - abs(self.at[0]), self.moves == 12


net, target = (nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2)) for _ in range(2))
target.load_state_dict(net.state_dict())
opt = torch.optim.Adam(net.parameters(), lr=0.01)
store, walk = Store(60), Walk()


def choose(row):
    if random.random() < 0.3:
        return torch.tensor([[random.randrange(2)]])
    with torch.no_grad():
        return net(row).argmax(1, keepdim=True)


def learn():
    if len(store.events) < 8:
        return 0.0
    part = store.draw(8)
    alive = torch.tensor([after is not None for after in part.after])
    later = torch.zeros(8)
    with torch.no_grad():
        later[alive] = target(torch.cat([after for after in part.after if after is not None])).max(1).values
    values = net(torch.cat(part.before)).gather(1, torch.cat(part.move))
    loss = nn.functional.smooth_l1_loss(values, (0.9 * later + torch.cat(part.gain)).unsqueeze(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


for game in range(4):
    row, total, losses = torch.tensor(walk.start()).unsqueeze(0), 0.0, []
    while True:
        move = choose(row)
        seen, gain, last = walk.go(move.item())
        after = None if last else torch.tensor(seen).unsqueeze(0)
        store.add(row, move, after, torch.tensor([gain]), last)
        row = after
        total += gain
        losses.append(learn())
        if last:
            break
    target.load_state_dict(net.state_dict())
    print(game, total, sum(losses) / len(losses))
