from .wrappers import evaluating, logged, timed


@timed
def step_all(things):
    for thing in things:
        thing.step()


class Trainer:
    callbacks = ()

    def __init__(self, **kwargs):
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.history = []

    @property
    def train_loader(self):
        return self.loaders.train

    @property
    def optimizers(self):
        return self._optimizers

    @logged("loss {:.6f}")
    @timed
    def epoch(self):
        total = 0.0
        for batch in self.train_loader:
            loss = self.module.training_step(batch)
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            loss.backward()
            step_all(self.optimizers)
            total += loss.item() * len(batch.y)
        return total / len(self.train_loader.dataset)

    @logged("accuracy {:.4f}")
    def validate(self):
        with evaluating(self.module) as module:
            results = [module.validation_step(batch) for batch in self.loaders.valid]
        return sum(r["hits"].item() for r in results) / sum(r["rows"] for r in results)

    def fit(self, module):
        self.module = module
        self._optimizers, self._schedulers = module.configure_optimizers()
        for epoch in range(self.config.epochs):
            self.epoch()
            accuracy = self.validate()
            step_all(self._schedulers)
            for callback in self.callbacks:
                callback(epoch, accuracy)
        print(len(self.history), "values")
