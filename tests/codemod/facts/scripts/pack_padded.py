import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(29, 6), torch.randint(0, 3, (29,)))
test_data = TensorDataset(torch.randn(17, 6), torch.randint(0, 3, (17,)))


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.fc2 = nn.Linear(16, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(16, 4)

    def forward(self, x, lens):
        p = pack_padded_sequence(self.emb(x), lens.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, c) = self.lstm(p)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return self.fc(out), torch.cat((h[-2], h[-1]), dim=1)


def collate(batch):
    xs, ys = zip(*batch)
    lens = torch.tensor([len(x) for x in xs])
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True, padding_value=-1), lens


rows = []
for n in torch.randint(2, 8, (29,)).tolist():
    rows.append((torch.randint(1, 12, (n,)), torch.randint(0, 4, (n,))))
loader = DataLoader(rows, batch_size=7, collate_fn=collate)
model = Tagger()
opt = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    hit = tot = 0
    for x, y, lens in loader:
        out, h = model(x, lens)
        loss = F.cross_entropy(out.view(-1, 4), y.view(-1), ignore_index=-1)
        loss = loss + 1e-3 * h.norm(dim=1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        keep = y != -1
        hit += (out.argmax(-1)[keep] == y[keep]).sum().item()
        tot += keep.sum().item()
        print(f'{loss.item():.6f} {lens.sum().item()} {lens.max().item()}')
    print(hit / tot)
