"""Section 1: batches that differ by rank, are read twice, or are drawn in another order."""

from __future__ import annotations

import pytest

from distify import runtime
from distify.runtime.state import NotInitialized
from tests.pitfalls.trial import Trial, differs
from tests.pool import Pool

# 17 samples in batches of one: ranks can't have as many each.
UNEVEN = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(features[:17], labels[:17]), batch_size=1)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
"""


def test_p01_ranks_with_different_batch_counts(trial: Trial) -> None:
    assert trial.hangs(
        UNEVEN,
        ("features[:17], labels[:17]", "features[:17][naive.rank() :: 2], labels[:17][naive.rank() :: 2]"),
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
    )
    trial.same(UNEVEN)
    trial.same(UNEVEN, size=3, backend="fsdp")


# Sets no seed: each process would draw its own split.
UNSEEDED_SPLIT = """
    torch.manual_seed(random.randrange(1000))
    held = [i for i in range(len(data)) if random.random() < 0.3]
    train, valid = torch.utils.data.random_split(data, [12, 6])
    print(len(held), sorted(train.indices))
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(torch.utils.data.Subset(data, held), batch_size=1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(F.cross_entropy(model(x), y, reduction="sum").item() for x, y in DataLoader(valid, batch_size=4)))
"""


def test_p02_random_split_on_each_rank(trial: Trial) -> None:
    naive = trial.naive(
        UNSEEDED_SPLIT, ("for x, y in DataLoader(torch", "naive.barrier(); sys.exit()\nfor x, y in DataLoader(torch")
    )
    assert naive.lines(0)[0] != naive.lines(1)[0]
    trial.same(UNSEEDED_SPLIT)


SHUFFLED = """
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print(f"{x.sum().item():.8f} {loss.item():.8f}")
"""


def test_p03_epochs_in_the_same_order(trial: Trial) -> None:
    naive = trial.naive(
        SHUFFLED,
        ("batch_size=4, shuffle=True", "batch_size=2, sampler=naive.sampler(data)"),
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
    ).lines()
    sums = [line.split()[0] for line in naive]
    assert sums[: len(sums) // 2] == sums[len(sums) // 2 :], "DistributedSampler shuffles by itself now"
    original = trial.original(SHUFFLED)
    sums = [line.split()[0] for line in original.lines()]
    assert sums[: len(sums) // 2] != sums[len(sums) // 2 :]
    trial.same(SHUFFLED, expected=original)


STREAM = """
    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            first, step = (0, 1) if info is None else (info.id, info.num_workers)
            for i in range(first, 9, step):
                yield features[i], labels[i], i


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Rows(), batch_size=2, num_workers=WORKERS)
    seen = []
    for x, y, i in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen += i.tolist()
        print(loss.item())
    print(sorted(seen))
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_p04_iterable_dataset_read_by_every_rank(trial: Trial, workers: int) -> None:
    source = STREAM.replace("WORKERS", str(workers))
    if not workers:
        naive = trial.naive(source, ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"))
        assert naive.out[0] == naive.out[1], "each reads all: two processes do the work of one, twice"
    trial.same(source)


def test_p05_shares_of_a_stream_are_unequal(trial: Trial) -> None:
    source = STREAM.replace("WORKERS", "0").replace("batch_size=2", "batch_size=1")
    assert trial.hangs(
        source,
        ("(0, 1) if info", "(naive.rank(), 2) if info"),
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
    )
    trial.same(source)


WEIGHTED = """
    weights = torch.where(labels == 1, 20.0, 0.1)
    sampler = torch.utils.data.WeightedRandomSampler(weights, 36)


    class Odd(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(range(1, 18, 2))

        def __len__(self):
            return 9


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    ones = seen = 0
    for loader in [DataLoader(data, batch_size=4, sampler=sampler), DataLoader(data, batch_size=4, sampler=Odd())]:
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            ones += (y == 1).sum().item()
            seen += len(y)
        print(ones, seen, loss.item())
"""


def test_p06_custom_sampler_replaced(trial: Trial) -> None:
    original = trial.original(WEIGHTED)
    naive = trial.naive(
        WEIGHTED,
        ("sampler=sampler", "sampler=naive.sampler(data)"),
        ("sampler=Odd()", "sampler=naive.sampler(data)"),
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
        ("print(ones, seen", "ones, seen = (int(naive.all_reduce(v)) for v in (ones, seen)); print(ones, seen"),
    )
    assert differs(original, naive)
    trial.same(WEIGHTED, expected=original)
    trial.same(WEIGHTED, expected=original, size=3)


BUCKETS = """
    lengths = [3, 3, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 5, 5]


    class Ragged(Dataset):
        def __len__(self):
            return 18

        def __getitem__(self, i):
            return features[i, : lengths[i]], labels[i]


    class Buckets(torch.utils.data.Sampler):
        '''Rows of one length each, so that they can be stacked.'''

        def __iter__(self):
            for length in sorted(set(lengths)):
                yield [i for i in range(18) if lengths[i] == length]

        def __len__(self):
            return len(set(lengths))


    model = nn.Linear(1, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Ragged(), batch_sampler=Buckets())
    print(len(loader))
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.mean(1, keepdim=True)), y)
        loss.backward()
        optimizer.step()
        print(tuple(x.shape)[1], loss.item())
"""


def test_p07_batch_sampler_keeps_its_batches(trial: Trial) -> None:
    naive = trial.naive(BUCKETS, ("batch_sampler=Buckets()", "sampler=naive.sampler(Ragged()), batch_size=4"))
    assert "stack expects each tensor to be equal size" in naive.error
    trial.same(BUCKETS)
    trial.same(BUCKETS, size=3)


DOWNLOADED = """
    import time

    from tests.pitfalls.ranks import is_second


    class Digits(Dataset):
        def __init__(self, root, download=False):
            path = os.path.join(root, "digits.txt")
            if download and not os.path.exists(path):
                with open(path, "w") as file:
                    file.write("one\\n" * 2)
                    file.flush()
                    time.sleep(0.2)
                    file.write("two\\n" * 2)
                with open(os.path.join(root, "downloads.txt"), "a") as file:
                    file.write("done\\n")
            self.rows = len(open(path).read().split())

        def __len__(self):
            return self.rows

        def __getitem__(self, i):
            return features[i], labels[i]


    if is_second():
        time.sleep(0.1)
    train = Digits(".", download=True)
    print(len(train))
    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(train, batch_size=2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_p08_download_race(trial: Trial) -> None:
    naive = trial.naive(DOWNLOADED, ("print(len(train))", "print(len(train))\nnaive.barrier()\nsys.exit()"))
    assert naive.lines(1)[0] == "2", "rank 1 reads the half that rank 0 has written"
    result = trial.same(DOWNLOADED)
    assert "with runtime.main_first():" in result.data.decode()


def test_p09_guard_before_the_process_group(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed as dist

    def naive_main() -> bool:
        return not dist.is_initialized() or dist.get_rank() == 0

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert naive_main(), "before the process group exists every rank takes itself for the first"
    with pytest.raises(NotInitialized, match=r"runtime\.init"):
        runtime.on_main(print, "once")
    lines = trial.convert(DOWNLOADED).data.decode().splitlines()
    order = [next(i for i, line in enumerate(lines) if part in line) for part in ("runtime.init(", "main_first(")]
    assert order == sorted(order), "init stands before the first guarded statement"


PRETRAINED = """
    import pathlib

    url = pathlib.Path("../weights.pt").resolve().as_uri()
    if not os.path.exists("../weights.pt"):
        torch.save(nn.Linear(5, 2).state_dict(), "../weights.pt")
    real = torch.hub.download_url_to_file


    def counted(*args, **kwargs):
        with open("downloads.txt", "a") as file:
            file.write("done\\n")
        real(*args, **kwargs)


    torch.hub.download_url_to_file = counted
    model = nn.Linear(5, 2)
    weights = torch.hub.load_state_dict_from_url(url, model_dir="cache", progress=False)
    torch.hub.download_url_to_file = real
    model.load_state_dict(weights)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_p10_pretrained_weights_race(trial: Trial) -> None:
    naive = trial.naive(PRETRAINED, ("weights = torch.hub", "naive.barrier()\nweights = torch.hub"))
    assert not naive.error
    assert (naive.folder / "downloads.txt").read_text().count("done") == 2, "both download to one cache at once"
    trial.same(PRETRAINED)  # compares files: one download
    hub = """
        from transformers import AutoModel
        model = AutoModel.from_pretrained("some/model")
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data, batch_size=6):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
    """
    lines = trial.convert(hub, partial=True).data.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if "from_pretrained" in line)
    assert "with runtime.main_first():" in lines[at - 1]


NOISE = """
    class Augmented(Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            return features[i], torch.rand(1).item(), labels[i]


    model = nn.Sequential(nn.Linear(5, 6), nn.Dropout(P), nn.Linear(6, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    drawn = []
    for x, augment, y in DataLoader(Augmented(), batch_size=8):
        noise = torch.randn(x.size(0), 5)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + noise), y)
        loss.backward()
        optimizer.step()
        drawn += augment.tolist()
        print(f"{noise.sum().item():.8f} {noise[0, 0].item():.8f} {loss.item():.8f}")
    print(len(drawn), "of them", len(set(drawn)), "different")
"""


def test_p11_same_noise_on_every_rank(trial: Trial) -> None:
    source = NOISE.replace("P)", "0.0)").replace("torch.rand(1)", "torch.tensor(i / 16)")
    original = trial.original(source)
    naive = trial.naive(
        source,
        ("DataLoader(Augmented(), batch_size=8)", "DataLoader(Augmented(), 4, sampler=naive.sampler(range(16)))"),
        ("print(f", "loss = torch.tensor(naive.average(loss)); print(f"),
    )
    noises = [[line.split()[0] for line in out.splitlines()[:2]] for out in naive.out]
    assert noises[0] == noises[1], "one seed on all ranks: the same noise for other samples"
    assert differs(original, naive)
    trial.same(source, expected=original)


def test_p11_same_augmentation_on_every_rank(trial: Trial) -> None:
    source = NOISE.replace("P)", "0.0)")
    naive = trial.naive(
        source,
        ("DataLoader(Augmented(), batch_size=8)", "DataLoader(Augmented(), 4, sampler=naive.sampler(range(16)))"),
    )
    assert naive.lines(0)[-1] == naive.lines(1)[-1] == "8 of them 8 different"
    ours = trial.ours(source)
    assert ours.lines()[-1] == "16 of them 16 different"
    assert len(trial.ours(NOISE.replace("P)", "0.5)")).lines()) == 3


def dropout_masks() -> tuple[list[float], float]:
    import torch

    torch.manual_seed(0)
    runtime.init()
    model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.5))
    runtime.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    mask = (model(torch.ones(1, 4)) == 0).float().flatten()
    return mask.tolist(), torch.rand(1).item()


def test_p11_same_dropout_on_every_rank(pool2: Pool) -> None:
    (left, after_left), (right, after_right) = pool2.run(dropout_masks)
    assert left != right, "dropout differs by rank"
    assert after_left == after_right, "and the stream outside the forward does not"


NUMPY_WORKERS = """
    class Augmented(Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, i):
            return features[i], np.random.rand(), random.random(), labels[i]


    def own(worker):
        print("worker", worker, file=sys.stderr)


    model = nn.Linear(5, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    drawn, others = [], []
    for x, a, b, y in DataLoader(Augmented(), batch_size=8, num_workers=2, worker_init_fn=own):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        drawn += a.tolist()
        others += b.tolist()
    print(len(drawn), "of them", len(set(drawn)), len(set(others)), "different")
"""


def test_p12_numpy_streams_of_workers(trial: Trial) -> None:
    naive = trial.naive(
        NUMPY_WORKERS,
        ("DataLoader(Augmented(), batch_size=8", "DataLoader(Augmented(), 4, sampler=naive.sampler(range(16))"),
        (
            "print(len(drawn)",
            "both = [None] * 2; torch.distributed.all_gather_object(both, drawn); "
            "drawn = sum(both, []); print(len(drawn)",
        ),
    )
    assert naive.lines()[-1].startswith("16 of them 8"), "both ranks' workers draw the same numbers"
    ours = trial.ours(NUMPY_WORKERS)
    assert ours.lines()[-1] == "16 of them 16 16 different"


SHARED = """
    model = nn.Linear(5, 2)
    extra = nn.Linear(2, 2)
    optimizer = optim.SGD([*model.parameters(), *extra.parameters()], lr=0.1)
    for x, y in DataLoader(data, batch_size=6):
        optimizer.zero_grad()
        out = model(x)
        used = random.random() < 0.5
        if used:
            out = extra(out)
        scale = np.random.choice([0.5, 1.0, 2.0])
        loss = F.cross_entropy(out * scale, y)
        loss.backward()
        optimizer.step()
        print(used, scale, loss.item())
"""


def test_p13_random_decisions_differ_by_rank(trial: Trial) -> None:
    naive = trial.naive(SHARED)
    assert naive.out[0] != naive.out[1], "ranks decide differently"
    trial.same(SHARED)
    trial.same(SHARED, backend="fsdp")


def test_p14_batch_size_per_process(trial: Trial) -> None:
    original = trial.original(SHUFFLED)
    naive = trial.naive(
        SHUFFLED,
        ("batch_size=4, shuffle=True", "batch_size=4, sampler=naive.sampler(data, shuffle=True)"),
        ("nn.Linear(5, 2)", "naive.ddp(nn.Linear(5, 2))"),
    )
    assert len(naive.lines()) < len(original.lines()), "half as many steps of batches twice as large"
    trial.same(SHUFFLED, expected=original)
    told = trial.ours(SHUFFLED, batch="per-device")
    assert len(told.lines()) < len(original.lines())
    assert "2 ranks × 4 rows = 8 rows per step" in told.err[0], "who asks for it is told the arithmetic"
