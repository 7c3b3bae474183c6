"""Section 8: what is written once per process, or shows one process's numbers."""

from __future__ import annotations

from tests.pitfalls.trial import Trial, differs

LOGGED = """
    class SummaryWriter:  # what a tracker does: a file of its own for each one that is made
        def __init__(self, name):
            self.file = open(name, "a")

        def add_scalar(self, name, value, step):
            self.file.write(f"{name} {step} {value:.4f}\\n")
            self.file.flush()


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=6)
    writer = SummaryWriter("events.txt")
    with open("log.csv", "a") as log:
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            writer.add_scalar("loss", loss.item(), i)
            log.write(f"{i},{loss.item():.4f}\\n")
            if i % 2 == 0:
                print(f"step {i} loss {loss.item():.7f}")
"""

SLICES = (
    "loader = DataLoader(data, batch_size=6)",
    "loader = [(x.chunk(2)[naive.rank()], y.chunk(2)[naive.rank()]) for x, y in DataLoader(data, batch_size=6)]",
)


def test_p64_and_p65_written_by_every_process(trial: Trial) -> None:
    original = trial.original(LOGGED)
    naive = trial.naive(LOGGED, ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"), SLICES)
    for name in ("log.csv", "events.txt"):
        lines = [len((outcome.folder / name).read_text().splitlines()) for outcome in (original, naive)]
        assert lines == [3, 6], "each process writes its lines"
    assert naive.out[1], "and prints them"
    trial.same(LOGGED, expected=original)  # compares files, and that the others are silent


def test_p66_written_for_tpus(trial: Trial) -> None:
    source = LOGGED.replace("    class Summary", "    import torch_xla.core.xla_model as xm\n\n\n    class Summary")
    trial.refused(source.replace("optimizer.step()", "xm.optimizer_step(optimizer)"), "DST146")


def test_p67_printed_loss_is_that_of_one_rank(trial: Trial) -> None:
    original = trial.original(LOGGED)
    naive = trial.naive(
        LOGGED,
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
        SLICES,
        ("if i % 2 == 0:", "if i % 2 == 0 and naive.rank() == 0:"),
    )
    assert differs(original, naive), "the first rank's rows only"
    trial.same(LOGGED, expected=original, size=3)
