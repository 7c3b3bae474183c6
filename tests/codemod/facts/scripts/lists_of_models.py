import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(5, h), nn.ReLU(), nn.Linear(h, 3)) for h in (4, 8, 16)]
optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
x = torch.randn(44, 5)
loader = DataLoader(TensorDataset(x, x.argmax(1) % 3), batch_size=10, shuffle=True)
crit = nn.CrossEntropyLoss()
for epoch in range(2):
    totals = [0.0] * len(models)
    right = 0
    for xb, yb in loader:
        for i, (model, opt) in enumerate(zip(models, optimizers)):
            opt.zero_grad()
            loss = crit(model(xb), yb)
            loss.backward()
            opt.step()
            totals[i] += loss.item() * xb.size(0)
        with torch.no_grad():
            votes = torch.stack([m(xb).softmax(-1) for m in models]).mean(0)
            right += (votes.argmax(-1) == yb).sum().item()
    print(epoch, [round(t / len(loader.dataset), 5) for t in totals], right / 44)
