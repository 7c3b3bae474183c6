"""A graph trained as a whole: masks pick the nodes that count, neighbours are summed by index."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)

    def forward(self, x, edges):
        h = self.lin(x)
        out = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        degree = torch.zeros(len(x)).index_add(0, edges[1], torch.ones(edges.size(1))).clamp(min=1)
        return out / degree.unsqueeze(1)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Conv(5, 8), Conv(8, 3)

    def forward(self, x, edges):
        return F.log_softmax(self.two(F.relu(self.one(x, edges)), edges), dim=1)


x, y = torch.randn(30, 5), torch.randint(0, 3, (30,))
edges = torch.randint(0, 30, (2, 90))
train_mask = torch.rand(30) < 0.5
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(5):
    model.train()
    optimizer.zero_grad()
    out = model(x, edges)
    loss = F.nll_loss(out[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        guess = model(x, edges).argmax(dim=1)
    accuracy = (guess[~train_mask] == y[~train_mask]).float().mean().item()
    print(f"{epoch} {loss.item():.5f} {accuracy:.4f}")
