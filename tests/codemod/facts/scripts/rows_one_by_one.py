"""A model that goes over the rows of its batch: words up to each text's length, one vector for each, then all at once."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 6)
        self.mix = nn.Linear(6, 6)
        self.out = nn.Linear(6, 3)

    def summary(self, text):
        return torch.tanh(self.mix(self.embed(text))).mean(0)

    def forward(self, texts, lengths):
        read, spread = [], []
        for text, n in zip(texts, lengths.tolist()):
            read.append(self.summary(text[:n]))
        for i in range(texts.size(0)):
            words = self.embed(texts[i, : lengths[i]])
            spread.append((words.max(0).values - words.min(0).values).unsqueeze(0))
        return self.out(torch.stack(read) + torch.cat(spread))


data = TensorDataset(torch.randint(0, 30, (26, 9)), torch.randint(1, 10, (26,)), torch.randint(0, 3, (26,)))
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    right = 0
    for texts, lengths, labels in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        scores = model(texts, lengths)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        right += (scores.argmax(1) == labels).sum().item()
        print(loss.item())
    print(epoch, right)
