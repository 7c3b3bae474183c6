"""Texts laid end to end with offsets: no slice of such a batch is one, so every process computes it whole."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

torch.manual_seed(3)
TEXTS = [(torch.randint(0, 30, (1 + i % 5,)), i % 3) for i in range(26)]


def collate(rows):
    labels, texts, offsets = [], [], [0]
    for text, label in rows:
        labels.append(label)
        texts.append(text)
        offsets.append(text.size(0))
    return torch.tensor(labels), torch.cat(texts), torch.tensor(offsets[:-1]).cumsum(dim=0)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(30, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, text, offsets):
        return self.out(self.embedding(text, offsets))


model = Bag()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    right = count = 0
    for label, text, offsets in DataLoader(TEXTS, batch_size=8, shuffle=True, collate_fn=collate):
        out = model(text, offsets)
        loss = criterion(out, label)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        right += (out.argmax(1) == label).sum().item()
        count += label.size(0)
        print(f"{loss.item():.5f}")
    print(f"{epoch} {right / count:.4f} {count}")
