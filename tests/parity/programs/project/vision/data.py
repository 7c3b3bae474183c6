import torch
from torch.utils.data import DataLoader, Dataset, random_split


class Shapes(Dataset):
    def __init__(self, count, classes):
        generator = torch.Generator().manual_seed(11)
        self.images = torch.rand(count, 1, 8, 8, generator=generator)
        self.masks = (self.images[:, 0] * classes).long()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": self.images[index], "mask": self.masks[index]}


def loaders(options):
    everything = Shapes(40, options.classes)
    train, val = random_split(everything, [29, 11], generator=torch.Generator().manual_seed(2))
    return {
        "train": DataLoader(train, batch_size=options.batch, shuffle=True),
        "val": DataLoader(val, batch_size=options.batch),
    }
