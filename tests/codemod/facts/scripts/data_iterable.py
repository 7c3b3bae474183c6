"""An IterableDataset read by workers that share it out, and a stream of chunks cut into batches by hand."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __iter__(self):
        info = get_worker_info()
        step, first = (1, 0) if info is None else (info.num_workers, info.id)
        g = torch.Generator().manual_seed(3 + first)
        for i in range(self.start + first, self.stop, step):
            x = torch.randn(3, generator=g)
            yield {"x": x, "y": x.sum() + 0.1 * i / self.stop, "id": i}


def main():
    torch.manual_seed(0)
    loader = DataLoader(Stream(0, 23), batch_size=5, num_workers=2)
    test = DataLoader(Stream(50, 59), batch_size=4)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(2):
        for batch in loader:
            loss = (model(batch["x"]).squeeze(-1) - batch["y"]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(epoch, f"{loss.item():.5f}", batch["id"].tolist())
        with torch.no_grad():
            errors = [(model(b["x"])[:, 0] - b["y"]).abs() for b in test]
            print(f"test {torch.cat(errors).mean().item():.5f} {len(errors)} {torch.cat(errors).numel()}")


if __name__ == "__main__":
    main()
