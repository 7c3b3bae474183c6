# Sequences are made of the last batch after the loop over batches has ended.
import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
def gen(m, src, n=4):
    ys = torch.full((src.size(0), 1), 1.)
    for _ in range(n): ys = torch.cat([ys, m(torch.cat([src, ys[:, :1]], 1))[:, :1]], 1)
    return ys
m = nn.Linear(4, 3); opt = torch.optim.SGD(m.parameters(), 0.1)
tl = DataLoader(TensorDataset(torch.randn(20, 3), torch.randint(0, 3, (20,))), batch_size=4)
for ep in range(2):
    for x, y in tl:
        loss = nn.functional.cross_entropy(m(torch.cat([x, x[:, :1]], 1)), y)
        opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        for x, y in tl:
            p = m(torch.cat([x, x[:, :1]], 1))
    print(gen(m, x)[0].tolist())
