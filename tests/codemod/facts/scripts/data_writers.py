"""Everything that writes: PIL images, csv, json, numpy, pickle, matplotlib, Path.open, text logs: each once."""

import csv
import json
import pickle
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
out_dir = Path("out")
out_dir.mkdir(parents=True, exist_ok=True)
(out_dir / "samples").mkdir(exist_ok=True)
data = TensorDataset(torch.randn(22, 6), torch.randn(22, 1))
loader = DataLoader(data, batch_size=5, shuffle=True)
model = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
log = (out_dir / "log.txt").open("a")
table = open(out_dir / "metrics.csv", "w", newline="")
writer = csv.writer(table)
writer.writerow(["epoch", "step", "loss"])
losses = []
for epoch in range(2):
    for step, (x, y) in enumerate(loader):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
        writer.writerow([epoch, step, f"{loss.item():.4f}"])
        print(f"{loss.item():.4f}", file=log)
    with (out_dir / f"epoch{epoch}.json").open("w") as f:
        json.dump({"epoch": epoch, "losses": losses}, f)
    with open(out_dir / "best.pickle", "wb") as f:
        pickle.dump({"losses": losses}, f, protocol=0)
    (out_dir / "last.txt").write_text(f"{losses[-1]:.4f}\n")
    np.save(out_dir / "losses.npy", np.array(losses, dtype=np.float32).round(3))
    with Path(out_dir, "rows.csv").open("a", newline="") as f:
        w = csv.DictWriter(f, fieldnames=["epoch", "loss"])
        if epoch == 0:
            w.writeheader()
        w.writerow({"epoch": epoch, "loss": losses[-1]})
    json.dump(losses, open(out_dir / "all.json", "w"))
    print(epoch, losses[-3:])
table.close()
log.close()
np.savetxt(str(out_dir / "w.txt"), model.weight.detach().numpy(), fmt="%.3f")
print(sorted(p.name for p in out_dir.iterdir()), sum(1 for _ in open(out_dir / "log.txt")))
