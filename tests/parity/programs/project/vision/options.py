from dataclasses import dataclass


@dataclass
class Options:
    epochs: int = 2
    batch: int = 8
    classes: int = 3
    seed: int = 5
    lr: float = 0.05
