import argparse
from types import SimpleNamespace

import torch
from torch.optim import SGD

from core import data
from core.config import Config
from core.modules import Classifier, Encoder
from core.pretrain import Pretraining
from core.trainer import Trainer


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", default="fast")
    return parser.parse_args()


def run(options):
    config = Config(**vars(options))
    torch.manual_seed(config.seed)
    loaders = data.build(config)

    pretraining = Pretraining(Encoder(), loaders.plain)
    pretraining.run(config.epochs)

    module = Classifier(Encoder(), config)
    module.encoder.load_state_dict(pretraining.encoder.state_dict())
    trainer = Trainer(config=config, loaders=loaders, callbacks=[lambda e, acc: print(f"callback {e} {acc:.4f}")])
    trainer.fit(module)

    probe = SimpleNamespace(net=torch.nn.Linear(8, 3), rate=config.lr)
    probe.opt = SGD(probe.net.parameters(), lr=probe.rate)
    for batch in loaders.train:
        with torch.no_grad():
            z = module.encoder(batch.x)
        loss = torch.nn.functional.cross_entropy(probe.net(z), batch.y)
        probe.opt.zero_grad()
        loss.backward()
        probe.opt.step()
    print(f"probe {loss.item():.6f}")
    torch.save({"probe": probe.net.state_dict(), "module": module.state_dict()}, "holders.pt")


if __name__ == "__main__":
    run(parse())
