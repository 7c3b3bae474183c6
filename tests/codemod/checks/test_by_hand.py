"""Scripts that are distributed by hand: each fault is found where it stands, and what looks like it isn't."""

from __future__ import annotations

import pytest

from .by_hand import DATA, HEAD, MODEL, SAVE, START, STEP, found, script, told

METER = """
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    def sync(self):
        both = torch.tensor([self.total, self.count], device="cuda")
        dist.all_reduce(both)
        self.total, self.count = both.tolist()

    def __str__(self):
        return f"{self.total / self.count:.3f}"
"""
EVALUATE = """
def evaluate(model, loader, device):
    model.eval()
    right = torch.zeros(2, device=device)
    with torch.no_grad():
        for x, y in loader:
            out = model(x.to(device))
            right[0] += (out.argmax(1) == y.to(device)).sum()
            right[1] += len(y)
    dist.all_reduce(right)
    return (right[0] / right[1]).item()
"""
VISION = "from torchvision import datasets\n"
MNIST = "digits = datasets.MNIST('data', download=True)"
MAIN = "def is_main():\n    return not dist.is_initialized() or dist.get_rank() == 0\n"
SCALED = "opt.zero_grad()\nloss = F.cross_entropy(model(x), y)\nscaler.scale(loss).backward()\n{}scaler.step(opt)\nscaler.update()\n"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
SCALER = "scaler = torch.amp.GradScaler()"
FSDP = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP"
PLATEAU = "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)"

CORRECT = {
    "plain": script(),
    "a reduced loss": script(after_step="mean = average(loss)\nif rank == 0:\n    print(mean.item())"),
    "a sum that is reduced": script(
        epoch="sampler.set_epoch(epoch)\ntotal = torch.zeros(2, device=device)",
        after_step="total[0] += loss.item() * len(x)\ntotal[1] += len(x)",
        after_epoch="dist.all_reduce(total)\nif rank == 0:\n    print((total[0] / total[1]).item())",
    ),
    "a list of numbers that is gathered": script(
        epoch="sampler.set_epoch(epoch)\nlosses = []",
        after_step="losses.append(loss.item())",
        after_epoch="every = [None] * dist.get_world_size()\ndist.all_gather_object(every, losses)\n"
        "print(sum(map(sum, every)))",
    ),
    "reduced in place by a function": script(
        head="def sync(value):\n    dist.all_reduce(value)\n    value /= dist.get_world_size()\n",
        after_step="shown = loss.detach().clone()\nsync(shown)\nprint(shown.item())",
    ),
    "a meter": script(
        head=METER,
        epoch="sampler.set_epoch(epoch)\nmeter = Meter()",
        after_step="meter.update(loss.item(), len(x))",
        after_epoch="meter.sync()\nprint(f'loss {meter}', meter.total)",
    ),
    "an evaluation on all": script(
        head=EVALUATE, after_epoch="accuracy = evaluate(model, loader, device)\nif rank == 0:\n    print(accuracy)"
    ),
    "an evaluation on whole data": script(
        before="test = DataLoader(data, batch_size=9)",
        after_epoch="for x, y in test:\n    print(F.cross_entropy(model(x.to(device)), y.to(device)).item())",
    ),
    "what counts rows": script(after_step="print(f'{epoch}: {len(x)} of {len(loader)}')"),
    "a download in turns": script(
        before="if rank != 0:\n    dist.barrier()\nopen('data.bin').close()\nif rank == 0:\n    dist.barrier()"
    ),
    "is it distributed at all": script(
        before="ddp = int(os.environ.get('RANK', -1)) != -1\nif ddp:\n    dist.barrier()\nif local >= 0:\n    dist.barrier()"
    ),
    "a group of its own": script(
        before="pair = dist.new_group([0, 1])\nif rank < 2:\n    dist.all_reduce(torch.ones(1, device=device), group=pair)"
    ),
    "both branches": script(
        before="if rank == 0:\n    dist.broadcast(torch.ones(1), 0)\nelse:\n    dist.broadcast(torch.zeros(1), 0)"
    ),
    "a decision on what is reduced": script(after_step="if average(loss).item() < 0.01:\n    break"),
    "a decision that the first one sends": script(
        before="stop = torch.zeros(1, device=device)",
        after_epoch="if rank == 0:\n    stop += loss.item() < 0.1\ndist.broadcast(stop, 0)\nif stop.item() > 0:\n    break",
    ),
    "the end of the run": script(
        after_step="if not torch.isfinite(loss):\n    print('loss', loss.item())\n    sys.exit(1)"
    ),
    "a decision that only prints": script(after_step="if loss.item() > 100:\n    count = 1"),
    "a download that one goes ahead with": script(
        head=VISION, before=f"if rank != 0:\n    dist.barrier()\n{MNIST}\nif rank == 0:\n    dist.barrier()"
    ),
    "a download on one": script(head=VISION, before=f"if rank == 0:\n    {MNIST}\ndist.barrier()"),
    "what is there": script(head=VISION, before=MNIST.replace("True", "False")),
    "a guard in a function": script(
        head=MAIN
        + "def save(model, path):\n    if not is_main():\n        return\n    torch.save(model.state_dict(), path)\n",
        after="save(model.module, 'model.pt')",
    ),
    "a guard around the call": script(
        head="def save(model):\n    torch.save(model.state_dict(), 'model.pt')\n",
        after="if rank == 0:\n    save(model.module)",
    ),
    "a guard that can't be looked into": script(
        head="from helpers import is_main_process\n", after=SAVE.replace("rank == 0", "is_main_process()")
    ),
    "an attribute of an object": script(
        head="class Trainer:\n    def __init__(self):\n        self.first = dist.get_rank() == 0\n"
        "    def save(self, model):\n        if self.first:\n            torch.save(model.module.state_dict(), 'm.pt')\n",
        after="Trainer().save(model)",
    ),
    "a file of each process": script(after="torch.save(model.module.state_dict(), f'model-{rank}.pt')"),
    "a folder of each process": script(
        before="out = os.path.join('out', f'part-{rank}')",
        after="torch.save(model.module.state_dict(), os.path.join(out, 'model.pt'))",
    ),
    "a folder that is made up": script(
        head="import tempfile\nimport uuid\n",
        after="open(f'{uuid.uuid4().hex}.txt', 'w')\nwith tempfile.TemporaryDirectory() as out:\n"
        "    torch.save(model.module.state_dict(), os.path.join(out, 'model.pt'))",
    ),
    "a command": script(after="os.system('nvidia-smi')"),
    "the prefix is taken off": script(
        after="states = {name.removeprefix('module.'): state for name, state in model.state_dict().items()}\n"
        "if rank == 0:\n    torch.save(states, 'model.pt')"
    ),
    "one epoch": script(epoch="pass").replace("range(3)", "range(1)"),
    "a validation between steps": script(
        before="test = DataLoader(data, batch_size=9)",
        after_step="if epoch > 1:\n    for u, v in test:\n        out = model(u.to(device))",
    ),
    "whose number it is": script(after_step="print(f'{rank}: {loss.item()}')\nprint('process', rank, loss.item())"),
    "a word about odd data": script(after_step="if loss.item() > 100:\n    print('odd:', loss.item())"),
    "a buffer in memory": script(
        after="import io\nbuffer = io.BytesIO()\ntorch.save(model.module.state_dict(), buffer)"
    ),
    "a tracker on one": script(
        head="from torch.utils.tensorboard import SummaryWriter\n",
        before="writer = SummaryWriter() if rank == 0 else None",
        after_step="mean = average(loss).item()\nif writer is not None:\n    writer.add_scalar('loss', mean, epoch)",
    ),
    "an object that one process has": script(
        head="from torch.utils.tensorboard import SummaryWriter\n\n\nclass Log:\n    def __init__(self):\n"
        "        self.writer = SummaryWriter()\n",
        before="log = Log() if rank == 0 else None",
    ),
    "no shuffle, no epoch": script(data=DATA.replace("(data)\n", "(data, shuffle=False)\n"), epoch="pass"),
    "a sampler that can't be looked into": script(
        head="from helpers import BalancedSampler\n",
        data=DATA.replace("DistributedSampler(data)", "BalancedSampler(data, rank)"),
        epoch="pass",
    ),
    "data that is cut by hand": script(
        data="data = TensorDataset(torch.randn(29, 4)[rank::2], torch.randint(0, 3, (29,))[rank::2])\n"
        "part = torch.utils.data.Subset(data, range(rank, 29, dist.get_world_size()))\n"
        "loader = DataLoader(part, batch_size=7)",
        epoch="pass",
    ),
    "a split with a seed": script(
        data=DATA.replace(
            "sampler =", "data, rest = random_split(data, [20, 9], torch.Generator().manual_seed(0))\nsampler ="
        )
    ),
    "unscaled, then clipped": script(before=SCALER, step=SCALED.format("scaler.unscale_(opt)\n" + CLIP)),
    "clipped where nothing is scaled": script(
        before=f"{SCALER}\namp = len(sys.argv) > 1",
        step="opt.zero_grad()\nloss = F.cross_entropy(model(x), y)\nif amp:\n    scaler.scale(loss).backward()\n"
        "    scaler.unscale_(opt)\n    "
        + CLIP
        + "    scaler.step(opt)\n    scaler.update()\nelse:\n    loss.backward()\n    "
        + CLIP
        + "    opt.step()\n",
    ),
    "no_sync around both": script(step="with model.no_sync():\n    F.cross_entropy(model(x), y).backward()\n" + STEP),
    "a schedule by a reduced loss": script(before=PLATEAU, after_epoch="plateau.step(average(loss).item())"),
    "evaluation past the wrapper": script(
        after_epoch="with torch.no_grad():\n    out = model.module(x)",
    ),
    "sharded, then its optimizer": script(
        head=FSDP, model=MODEL.replace("DDP(", "FSDP(").replace(", device_ids=[local]", ""), after=""
    ),
    "a state that all gather": script(
        head=FSDP,
        model=MODEL.replace("DDP(", "FSDP(").replace(", device_ids=[local]", ""),
        after="state = model.state_dict()\nif rank == 0:\n    torch.save(state, 'model.pt')",
    ),
    "loaded to the device": script(before="model.module.load_state_dict(torch.load('m.pt', map_location=device))"),
    "started by spawn": HEAD
    + "def main(rank, world):\n"
    + "".join(
        f"    {line}\n"
        for line in script().removeprefix(HEAD).replace("rank = dist.get_rank()", "local = rank").splitlines()
    )
    + "torch.multiprocessing.spawn(main, nprocs=2, args=(2,))\n",
}
CORRECT["what runs before the others are started"] = CORRECT["started by spawn"].replace(
    "torch.multiprocessing.spawn(", "open('log.txt', 'w')\ntorch.multiprocessing.spawn("
)
CORRECT["started by spawn, with a group from elsewhere"] = CORRECT["started by spawn"].replace(
    'dist.init_process_group("nccl")', "__import__('helpers').start()"
)


@pytest.mark.parametrize("name", CORRECT)
def test_what_is_correct_is_left_alone(name: str) -> None:
    assert told(CORRECT[name]) == []


LOCAL = "print(loss.item())"
FAULTS = {
    "a loader": (
        script(data=DATA.replace("sampler=sampler", "shuffle=True"), epoch="pass"),
        [("DST151", "loader = DataLoader(data, batch_size=7, shuffle=True)")],
    ),
    "set_epoch": (script(epoch="pass"), [("DST152", "sampler = DistributedSampler(data)")]),
    "a split": (
        script(data=DATA.replace("sampler =", "data, rest = random_split(data, [20, 9])\nsampler =")),
        [("DST153", "data, rest = random_split(data, [20, 9])")],
    ),
    "a download": (script(head=VISION, before=MNIST), [("DST131", MNIST)]),
    "a schedule": (
        script(before=PLATEAU, after_epoch="plateau.step(loss.item())"),
        [("DST253", "plateau.step(loss.item())")],
    ),
    "no_sync": (
        script(step="loss = F.cross_entropy(model(x), y)\nwith model.no_sync():\n    loss.backward()\nopt.step()"),
        [("DST254", "with model.no_sync():")],
    ),
    "an optimizer of what is no more": (
        script(
            head=FSDP,
            model="model = Net().to(device)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel = FSDP(model)",
            after="",
        ),
        [("DST255", "opt = torch.optim.SGD(model.parameters(), lr=0.1)")],
    ),
    "a norm of a part": (
        script(
            head=FSDP,
            model=MODEL.replace("DDP(", "FSDP(").replace(", device_ids=[local]", ""),
            step=STEP.replace("opt.step()", CLIP + "opt.step()"),
            after="",
        ),
        [("DST256", CLIP.strip())],
    ),
    "past the wrapper": (
        script(step=STEP.replace("model(x)", "model.module(x)")),
        [("DST352", "loss = F.cross_entropy(model.module(x), y)")],
    ),
    "clipped while scaled": (script(before=SCALER, step=SCALED.format(CLIP)), [("DST451", CLIP.strip())]),
    "a printed loss": (script(after_step=LOCAL), [("DST551", LOCAL)]),
    "a printed loss on one": (script(after_step=f"if rank == 0:\n    {LOCAL}"), [("DST551", LOCAL)]),
    "a mean over a list": (
        script(
            epoch="sampler.set_epoch(epoch)\nlosses = []",
            after_step="losses.append(loss.item())",
            after_epoch="print(f'{sum(losses) / len(losses):.3f}')",
        ),
        [("DST551", "print(f'{sum(losses) / len(losses):.3f}')")],
    ),
    "a meter that is not told": (
        script(
            head=METER,
            epoch="sampler.set_epoch(epoch)\nmeter = Meter()",
            after_step="meter.update(loss.item(), len(x))",
            after_epoch="print(f'loss {meter}')",
        ),
        [("DST551", "print(f'loss {meter}')")],
    ),
    "an accuracy": (
        script(
            head=EVALUATE.replace("    dist.all_reduce(right)\n", ""),
            after_epoch="print(evaluate(model, loader, device))",
        ),
        [("DST551", "print(evaluate(model, loader, device))")],
    ),
    "a tracked loss": (
        script(
            head="import wandb\n",
            before="if rank == 0:\n    wandb.init()",
            after_step="if rank == 0:\n    wandb.log({'loss': loss.item()})",
        ),
        [("DST551", "wandb.log({'loss': loss.item()})")],
    ),
    "a reduction on one": (
        script(after_epoch="if rank == 0:\n    dist.all_reduce(loss)"),
        [("DST651", "dist.all_reduce(loss)")],
    ),
    "a reduction after the others left": (
        script(
            head="def show(loss):\n    if dist.get_rank() != 0:\n        return\n    print(average(loss))\n",
            after_step="show(loss)",
        ),
        [("DST651", "print(average(loss))")],
    ),
    "an evaluation on one": (
        script(head=EVALUATE, after_epoch="if rank == 0:\n    print(evaluate(model, loader, device))"),
        [("DST651", "print(evaluate(model, loader, device))")],
    ),
    "a state on one": (
        script(
            head=FSDP,
            model=MODEL.replace("DDP(", "FSDP(").replace(", device_ids=[local]", ""),
            after="if rank == 0:\n    torch.save(model.state_dict(), 'model.pt')",
        ),
        [("DST651", "torch.save(model.state_dict(), 'model.pt')")],
    ),
    "an early stop": (script(after_step="if loss.item() < 0.01:\n    break"), [("DST652", "if loss.item() < 0.01:")]),
    "a skipped step": (
        script(step=STEP.replace("loss.backward()", "if not torch.isfinite(loss):\n    continue\nloss.backward()")),
        [("DST652", "if not torch.isfinite(loss):")],
    ),
    "a clock": (
        script(before="began = time.time()", after_epoch="if time.time() - began > 60:\n    break"),
        [("DST652", "if time.time() - began > 60:")],
    ),
    "a save": (
        script(after="torch.save(model.module.state_dict(), 'model.pt')"),
        [("DST751", "torch.save(model.module.state_dict(), 'model.pt')")],
    ),
    "keys of the wrapper": (
        script(after=SAVE.replace(".module", "")),
        [("DST752", 'torch.save(model.state_dict(), "model.pt")')],
    ),
    "a load": (
        script(before="model.module.load_state_dict(torch.load('m.pt'))"),
        [("DST753", "model.module.load_state_dict(torch.load('m.pt'))")],
    ),
    "a file": (
        script(after=SAVE + "with open('log.json', 'w') as file:\n    json.dump({}, file)"),
        [("DST802", "with open('log.json', 'w') as file:")],
    ),
    "a file of each that is spawned": (
        CORRECT["started by spawn"]
        .replace("    rank = rank", "")
        .replace("    for epoch", "    open('log.txt', 'w')\n    for epoch", 1),
        [("DST802", "open('log.txt', 'w')")],
    ),
    "a tracker": (
        script(head="import wandb\n", before="wandb.init(project='digits')"),
        [("DST851", "wandb.init(project='digits')")],
    ),
    "the first device": (
        script(
            start="dist.init_process_group('nccl')\nrank = dist.get_rank()\ndevice = torch.device('cuda')\nlocal = 0\n"
        ),
        [("DST951", "device = torch.device('cuda')")],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_where_it_stands(name: str) -> None:
    source, expected = FAULTS[name]
    assert told(source) == expected


def test_findings_are_suppressed_by_comments() -> None:
    source = script(after_step=f"{LOCAL}  # distify: ignore[DST551]")
    assert found(source) == []
    assert told(source.replace("[DST551]", "[DST651]")) == [
        ("DST551", f"{LOCAL}  # distify: ignore[DST651]"),
        ("DST900", f"{LOCAL}  # distify: ignore[DST651]"),
    ]


def test_nothing_is_written_into_scripts_of_others() -> None:
    from .by_hand import checked

    for source, _ in FAULTS.values():
        assert not checked(source).changed


__all__ = ["START"]
