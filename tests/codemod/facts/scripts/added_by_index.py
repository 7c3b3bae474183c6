import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
class Idx(torch.utils.data.Dataset):
    def __init__(s): s.x, s.y = torch.randn(22, 4), torch.randint(0, 3, (22,))
    def __len__(s): return 22
    def __getitem__(s, i): return s.x[i], s.y[i], i
loader = DataLoader(Idx(), batch_size=5, shuffle=True)
model = nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
weights, seen, cls, hist = torch.ones(22), torch.zeros(22), torch.zeros(3), {"a": torch.zeros(3), "b": 0}
per = [0.0] * 3
for epoch in range(2):
    for x, y, i in loader:
        out = model(x)
        l = nn.functional.cross_entropy(out, y, reduction="none")
        loss = (l * weights[i]).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        weights[i] *= 1 + 0.1 * (out.argmax(1) != y).float()
        seen[i] += 1
        seen[i] -= l.detach() * .01
        cls[y] += l.detach()
        cls[out.argmax(1)] *= 0.9
        hist["a"] += out.detach().sum(0)
        hist["b"] += l.detach().sum()
        for c in range(3):
            per[c] += (out.argmax(1)[y == c] == c).float().sum().item()
    print(weights.tolist(), seen.tolist(), cls.tolist(), hist, per)
