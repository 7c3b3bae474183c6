from dataclasses import asdict, dataclass, field


@dataclass
class Config:
    epochs: int = 2
    batch: int = 8
    rate: str = "fast"
    seed: int = 5
    lr: float = field(init=False)
    milestones: list = field(default_factory=lambda: [1])

    def __post_init__(self):
        match self.rate:
            case "fast":
                self.lr = 0.1
            case "slow":
                self.lr = 0.01
            case other:
                raise ValueError(other)
        print(sorted(asdict(self).items()))
