"""Captioning: batches sorted by length, a decoder that runs over packed sequences, a mean over the words."""

import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, Dataset

random.seed(3)
torch.manual_seed(3)


class Captions(Dataset):
    def __init__(self, count):
        self.images = torch.randn(count, 3, 6, 6)
        self.words = [
            torch.tensor([1, *[random.randint(3, 12) for _ in range(random.randint(1, 6))], 2]) for _ in range(count)
        ]

    def __getitem__(self, index):
        return self.images[index], self.words[index]

    def __len__(self):
        return len(self.words)


def collate_fn(data):
    data.sort(key=lambda pair: len(pair[1]), reverse=True)
    images, captions = zip(*data)
    images = torch.stack(images, 0)
    lengths = [len(cap) for cap in captions]
    targets = torch.zeros(len(captions), max(lengths)).long()
    for i, cap in enumerate(captions):
        end = lengths[i]
        targets[i, :end] = cap[:end]
    return images, targets, lengths


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(64, size)
        self.bn = nn.BatchNorm1d(size, momentum=0.01)

    def forward(self, images):
        features = self.conv(images).relu()
        return self.bn(self.linear(features.reshape(features.size(0), -1)))


class Decoder(nn.Module):
    def __init__(self, size, hidden, words):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, hidden, 1, batch_first=True)
        self.linear = nn.Linear(hidden, words)
        self.gate = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, features, captions, lengths):
        embeddings = torch.cat((features.unsqueeze(1), self.embed(captions)), 1)
        packed = pack_padded_sequence(embeddings, lengths, batch_first=True)
        hiddens, _ = self.lstm(packed)
        outputs = self.linear(hiddens[0])
        smooth, last = self.gate(PackedSequence(torch.tanh(hiddens.data), hiddens.batch_sizes))
        padded, seen = pad_packed_sequence(smooth, batch_first=True)
        return outputs, padded.mean(1), last[-1]


encoder, decoder = Encoder(5), Decoder(5, 7, 13)
criterion = nn.CrossEntropyLoss()
params = list(decoder.parameters()) + list(encoder.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2)
loader = DataLoader(Captions(23), batch_size=6, shuffle=True, collate_fn=collate_fn)
for epoch in range(2):
    right = words = 0
    for i, (images, captions, lengths) in enumerate(loader):
        targets = pack_padded_sequence(captions, lengths, batch_first=True)[0]
        outputs, means, last = decoder(encoder(images), captions, lengths)
        loss = criterion(outputs, targets) + 0.1 * means.pow(2).mean() + 0.01 * last.norm(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (outputs.argmax(1) == targets).sum().item()
        words += targets.size(0)
        print(f"{epoch} {i} {loss.item():.6f} {sum(lengths)} {max(lengths)}")
    print(f"accuracy {right / words:.6f} of {words} words")
