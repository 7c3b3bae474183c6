import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width))

    def forward(self, x):
        return self.layers(x)


class Classifier(nn.Module):
    def __init__(self, encoder, config):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(8, 3)
        self.config = config

    def forward(self, x):
        return self.head(torch.relu(self.encoder(x)))

    def training_step(self, batch):
        return F.cross_entropy(self(batch.x), batch.y)

    def validation_step(self, batch):
        return {"hits": (self(batch.x).argmax(1) == batch.y).sum(), "rows": len(batch.y)}

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.config.lr / 10)
        return [optimizer], [torch.optim.lr_scheduler.MultiStepLR(optimizer, self.config.milestones, 0.5)]
