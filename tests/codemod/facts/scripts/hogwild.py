"""Hogwild: processes that share a model's memory, each with an optimizer of its own."""

import torch
import torch.multiprocessing as mp
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


def train(rank, model, dataset):
    torch.manual_seed(rank)
    loader = DataLoader(dataset, batch_size=5, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(1)
    mp.set_start_method("spawn", force=True)
    dataset = TensorDataset(torch.randn(20, 4), torch.randint(0, 2, (20,)))
    model = Net()
    model.share_memory()
    processes = []
    for rank in range(2):
        p = mp.Process(target=train, args=(rank, model, dataset))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
    print("done")
