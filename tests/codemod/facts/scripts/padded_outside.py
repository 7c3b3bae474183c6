import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Series(Dataset):
    def __init__(self):
        g = torch.Generator().manual_seed(0)
        self.x = [torch.randn(int(n), 4, generator=g) for n in torch.randint(2, 9, (29,), generator=g)]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, seqs):
        lengths = torch.tensor([len(s) for s in seqs])
        padded = pad_sequence(seqs)
        _, h = self.rnn(pack_padded_sequence(padded, lengths, enforce_sorted=False))
        return self.out(h[-1])


def collate(samples):
    seqs, labels = zip(*samples)
    return list(seqs), torch.tensor(labels), torch.stack([s[0] for s in seqs])


torch.manual_seed(0)
loader = DataLoader(Series(), batch_size=6, shuffle=True, collate_fn=collate)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for seqs, labels, firsts in loader:
        x = pad_sequence(seqs, batch_first=True, padding_value=0.5)
        out = net(x) + net(firsts).unsqueeze(1)
        loss = F.cross_entropy(out.mean(1), labels) + 0.1 * out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{epoch} {loss.item():.5f} {x.shape[1]}")

steps = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
opt = torch.optim.SGD(steps.parameters(), lr=0.1)
for seqs, labels, _ in loader:
    out = steps(pad_sequence([s * 2 for s in seqs]))
    loss = F.cross_entropy(out.mean(0), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f} {out.shape[0]}")

tagger = Tagger()
opt = torch.optim.SGD(tagger.parameters(), lr=0.1)
for seqs, labels, _ in loader:
    loss = F.cross_entropy(tagger(seqs), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f}")
