"""In-batch negatives: a symmetric loss over the matrix of similarities, with a learned temperature and recall at one."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
images = torch.randn(27, 6)
texts = images @ torch.randn(6, 5) + 0.3 * torch.randn(27, 5)
loader = DataLoader(TensorDataset(images, texts), batch_size=8, shuffle=True)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, image, text):
        return F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1), self.scale.exp()


def info_nce(a, b, scale):
    logits = scale * a @ b.t()
    target = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2, logits


model = Towers()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
for epoch in range(3):
    hits = seen = 0
    for image, text in loader:
        a, b, scale = model(image, text)
        loss, logits = info_nce(a, b, scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits += (logits.argmax(dim=1) == torch.arange(image.size(0))).sum().item()
        seen += image.size(0)
        print(f"{epoch} {loss.item():.5f} {scale.item():.5f}")
    print(f"recall {hits / seen:.5f}")
