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
FSDP2 = (
    "from torch.distributed.checkpoint.state_dict import get_model_state_dict\n"
    "from torch.distributed.fsdp import fully_shard\n"
)
NORMED = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.norm = Net(), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.net(x))
"""
SHARDED = "model = Net().to(device)\nfully_shard(model)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
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
    "whose number it is, in words": script(after_step="if rank == 0:\n    print('Rank-0 loss:', loss.item())"),
    "a word about odd data": script(after_step="if loss.item() > 100:\n    print('odd:', loss.item())"),
    "the same on both branches": script(
        before="def run():\n    return average(torch.ones(1))",
        after_epoch="if rank == 0:\n    print(run())\nelse:\n    run()",
    ),
    "a cache of samples": script(
        head="class Data(TensorDataset):\n    def __getitem__(self, i):\n        return self.keep(i)\n\n"
        "    def keep(self, i):\n        torch.save(self.tensors[0][i], f'{i}.pt')\n        return super().__getitem__(i)\n",
        data=DATA.replace("TensorDataset(", "Data("),
    ),
    "the rest of a body for one": script(after_epoch="if rank != 0:\n    continue\nprint(epoch)"),
    "a return of one after the loop": script(
        head="def run(loader):\n    for x, y in loader:\n        average(x)\n    if dist.get_rank() != 0:\n        return\n"
        "    print('done')\n",
        after="run(loader)",
    ),
    "a patience that all agree on": script(
        before="best, patience = 9.0, 3",
        after_epoch="mean = average(loss).item()\nif mean < best:\n    best = mean\nelse:\n    patience -= 1\n"
        "if patience == 0:\n    break",
    ),
    "a flag that the first one sends": script(
        before="stop = torch.zeros(1, device=device)",
        after_epoch="if rank == 0 and loss.item() < 0.1:\n    stop += 1\ndist.broadcast(stop, 0)\nif stop:\n    break",
    ),
    "told by the loader": script(epoch="loader.sampler.set_epoch(epoch)"),
    "told by a hook": script(
        head="class Hook:\n    def __init__(self, sampler):\n        self.sampler = sampler\n\n"
        "    def before(self, epoch):\n        self.sampler.set_epoch(epoch)\n",
        before="hook = Hook(sampler)",
        epoch="hook.before(epoch)",
    ),
    "a split under one seed": script(
        before="torch.manual_seed(0)",
        data=DATA.replace("sampler =", "data, rest = random_split(data, [20, 9])\nsampler ="),
    ),
    "unscaled in a function": script(
        head="def clip(scaler, opt, model):\n    scaler.unscale_(opt)\n    " + CLIP,
        before=SCALER,
        step=SCALED.format("clip(scaler, opt, model)\n"),
    ),
    "a folder that may be there": script(
        before="os.makedirs('out', exist_ok=True)\ntry:\n    os.mkdir('logs')\nexcept FileExistsError:\n    pass"
    ),
    "wrapped or not": script(
        model="model = Net().to(device)\nif dist.get_world_size() > 1:\n    model = DDP(model)\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1)",
        after="",
    ),
    "wrapped into itself": script(
        head="class Trainer:\n    def __init__(self, model):\n        self.model = model\n        self.model = DDP(self.model)\n"
        "        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n    def step(self, x, y):\n"
        "        self.opt.zero_grad()\n        loss = F.cross_entropy(self.model(x), y)\n        loss.backward()\n"
        "        self.opt.step()\n",
        model="trainer = Trainer(Net().to(device))",
        step="trainer.step(x, y)",
        after="",
    ),
    "gradients that are sent by hand": script(
        model=MODEL.replace("DDP(", "").replace(", device_ids=[local])", ""),
        step=STEP.replace("opt.step()", "for p in model.parameters():\n    dist.all_reduce(p.grad)\nopt.step()"),
        after="",
    ),
    "wrapped where nobody sees": script(
        head="from helpers import wrap\n",
        model=MODEL.replace("DDP(", "").replace(", device_ids=[local])", "") + "model = wrap(model)",
        after="",
    ),
    "a teacher": script(
        before="teacher = Net().to(device)",
        step=STEP.replace("loss =", "with torch.no_grad():\n    soft = teacher(x)\nloss = soft.sum() +"),
    ),
    "loaded by one, then sent": script(
        model="net = Net().to(device)\nif rank == 0:\n    net.load_state_dict(torch.load('m.pt', map_location='cpu'))\n"
        + MODEL.replace("Net().to(device)", "net")
    ),
    "loaded by one, then sent by hand": script(
        before="if rank == 0:\n    model.module.load_state_dict(torch.load('m.pt', map_location='cpu'))\n"
        "for p in model.parameters():\n    dist.broadcast(p.data, 0)",
    ),
    "a step by the norm of all": script(
        step=STEP.replace("opt.step()", "norm = " + CLIP + "if torch.isfinite(norm):\n    opt.step()")
    ),
    "rates by the epoch": script(
        after_epoch="if epoch > 1:\n    for group in opt.param_groups:\n        group['lr'] *= 0.5"
    ),
    "steps on both branches": script(
        step=STEP.replace("opt.step()", "if rank == 0:\n    opt.step()\nelse:\n    opt.step()")
    ),
    "all parts of a sharded model": script(
        head=FSDP2,
        model=SHARDED,
        after="state = {name: part.full_tensor() for name, part in model.named_parameters()}\n"
        "whole = get_model_state_dict(model)\nif rank == 0:\n    torch.save((state, whole), 'model.pt')",
    ),
    "an error that ends the run": script(
        step="try:\n    "
        + STEP.strip().replace("\n", "\n    ")
        + "\nexcept RuntimeError as error:\n    sys.exit(str(error))\n"
    ),
    "an interrupt": script(
        step="try:\n    " + STEP.strip().replace("\n", "\n    ") + "\nexcept KeyboardInterrupt:\n    break\n"
    ),
    "what is stored of all": script(
        after_step="mean = average(loss).item()",
        after="if rank == 0:\n    torch.save({'model': model.module.state_dict(), 'loss': mean}, 'model.pt')",
    ),
    "saved for a call that gives a model": script(
        head="def state(path, model=None):\n    if model is not None:\n        torch.save(model.state_dict(), path)\n"
        "    else:\n        return torch.load(path, map_location='cpu')\n",
        before="state('model.pt')",
        after="if rank == 0:\n    state('model.pt', model.module)",
    ),
    "a case of one": script(
        after="match rank:\n    case 0:\n        torch.save(model.module.state_dict(), 'model.pt')"
    ),
    "a batch that is not there": script(step="if x is None:\n    continue\n" + STEP),
    "a sample that holds itself": script(
        head="class Data(TensorDataset):\n    def __getitem__(self, i):\n        sample = {'x': self.tensors[0][i], 'y': i}\n"
        "        sample['all'] = {'inner': sample}\n        return sample\n",
        data=DATA.replace("TensorDataset(", "Data("),
    )
    .replace("for x, y in loader:", "for batch in loader:")
    .replace(
        "x, y = x.to(device), y.to(device)", "x, y = batch['x'].to(device), batch['all']['inner']['y'].to(device)"
    ),
    "an evaluation past the wrapper, on one": script(
        head=NORMED, model=MODEL.replace("Net()", "Normed()"), after_epoch="if rank == 0:\n    out = model.module(x)"
    ),
    "an evaluation on one, without buffers": script(after_epoch="if rank == 0:\n    out = model(x)"),
    "buffers of each": script(
        head=NORMED,
        model=MODEL.replace("Net()", "Normed()").replace("[local]", "[local], broadcast_buffers=False"),
        after_epoch="if rank == 0:\n    out = model(x)",
    ),
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
    "a run of a tracker": (
        script(
            head="import wandb\n",
            before="run = wandb.init() if rank == 0 else None",
            after_step="if rank == 0:\n    run.log({'loss': loss.item()})",
        ),
        [("DST551", "run.log({'loss': loss.item()})")],
    ),
    "what is stored": (
        script(
            before="losses = []",
            after_step="losses.append(loss.item())",
            after="if rank == 0:\n    state = {'model': model.module.state_dict(), 'losses': losses}\n"
            "    torch.save(state, 'model.pt')",
        ),
        [("DST551", "torch.save(state, 'model.pt')")],
    ),
    "set_epoch with the same": (
        script(epoch="sampler.set_epoch(0)"),
        [("DST152", "sampler = DistributedSampler(data)")],
    ),
    "set_epoch once": (
        script(before="first = len(sys.argv)\nsampler.set_epoch(first)", epoch="pass"),
        [("DST152", "sampler = DistributedSampler(data)")],
    ),
    "a split of each": (
        script(
            start=START + "torch.manual_seed(7 + rank)",
            data=DATA.replace("sampler =", "data, rest = random_split(data, [20, 9])\nsampler ="),
        ),
        [("DST153", "data, rest = random_split(data, [20, 9])")],
    ),
    "a model of each": (
        script(model=MODEL.replace("DDP(", "").replace(", device_ids=[local])", ""), after=""),
        [("DST351", "model = Net().to(device)")],
    ),
    "a head of each": (
        script(
            model=MODEL + "head = nn.Linear(3, 3).to(device)\nopt.add_param_group({'params': head.parameters()})\n"
            "other = torch.optim.SGD(head.parameters(), lr=0.1)\n",
            step=STEP.replace("model(x)", "head(model(x))") + "other.step()\n",
        ),
        [("DST351", "head = nn.Linear(3, 3).to(device)")],
    ),
    "the model that was wrapped": (
        script(
            model="net = Net().to(device)\n" + MODEL.replace("Net().to(device)", "net"),
            step=STEP.replace("model(x)", "net(x)"),
        ),
        [("DST352", "loss = F.cross_entropy(net(x), y)")],
    ),
    "a schedule of one": (
        script(
            before="schedule = torch.optim.lr_scheduler.StepLR(opt, 3)",
            after_epoch="if rank == 0:\n    schedule.step()",
        ),
        [("DST257", "schedule.step()")],
    ),
    "weights of one": (
        script(before="if rank == 0:\n    model.module.load_state_dict(torch.load('m.pt', map_location='cpu'))"),
        [("DST257", "model.module.load_state_dict(torch.load('m.pt', map_location='cpu'))")],
    ),
    "clipped while scaled, in a function": (
        script(head="def clip(model):\n    " + CLIP, before=SCALER, step=SCALED.format("clip(model)\n")),
        [("DST451", CLIP.strip())],
    ),
    "a loop that one leaves": (script(after_epoch="if rank == 0 and epoch > 1:\n    break"), [("DST651", "break")]),
    "an evaluation of shards on one": (
        script(
            head=FSDP2,
            model=SHARDED,
            after_epoch="if rank == 0:\n    with torch.no_grad():\n        out = model(x)",
            after="",
        ),
        [("DST651", "out = model(x)")],
    ),
    "an evaluation with buffers on one": (
        script(head=NORMED, model=MODEL.replace("Net()", "Normed()"), after_epoch="if rank == 0:\n    out = model(x)"),
        [("DST651", "out = model(x)")],
    ),
    "a metric on one": (
        script(
            head="import torchmetrics\n",
            before="right = torchmetrics.Accuracy('multiclass', num_classes=3)",
            after_step="right.update(model(x), y)",
            after_epoch="if rank == 0:\n    print(right.compute())",
        ),
        [("DST651", "print(right.compute())")],
    ),
    "a state of an optimizer in parts": (
        script(
            head="from torch.distributed.optim import ZeroRedundancyOptimizer\n",
            model=MODEL.replace(
                "torch.optim.SGD(model.parameters()", "ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD"
            ),
            after="if rank == 0:\n    opt.consolidate_state_dict()",
        ),
        [("DST651", "opt.consolidate_state_dict()")],
    ),
    "a step of those with a small loss": (
        script(step=STEP.replace("opt.step()", "if loss.item() < 9:\n    opt.step()")),
        [("DST257", "opt.step()")],
    ),
    "rates of each": (
        script(
            after_step="if loss.item() > 9:\n    for group in opt.param_groups:\n        group['lr'] *= 0.5",
            after_epoch="opt.param_groups[0]['lr'] = loss.item() / 9",
        ),
        [("DST253", "group['lr'] *= 0.5"), ("DST253", "opt.param_groups[0]['lr'] = loss.item() / 9")],
    ),
    "parts on one": (
        script(
            head=FSDP2,
            model=SHARDED,
            after="if rank == 0:\n    for name, part in model.named_parameters():\n        print(name, part.full_tensor().shape)\n"
            "    whole = get_model_state_dict(model)",
        ),
        [
            ("DST651", "print(name, part.full_tensor().shape)"),
            ("DST651", "whole = get_model_state_dict(model)"),
        ],
    ),
    "a patience of one": (
        script(
            before="best, patience = 9.0, 3",
            after_epoch="if loss.item() < best:\n    best = loss.item()\nelse:\n    patience -= 1\n"
            "if patience == 0:\n    break",
        ),
        [("DST652", "if patience == 0:")],
    ),
    "a flag of one": (
        script(before="stop = False", after_epoch="if rank == 0:\n    stop = epoch > 1\nif stop:\n    break"),
        [("DST652", "if stop:")],
    ),
    "a step that one may fail at": (
        script(step="try:\n    " + STEP.strip().replace("\n", "\n    ") + "\nexcept RuntimeError:\n    continue\n"),
        [("DST652", "except RuntimeError:")],
    ),
    "a folder": (script(before="os.makedirs('out')"), [("DST802", "os.makedirs('out')")]),
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
