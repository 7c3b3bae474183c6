"""The catalogue of finding codes. Codes are stable: never renumbered, never reused.

Families, by the first digit: see `FAMILIES`.
From x51 on, codes are of `distify check` alone: what is unsafe in scripts that run on several processes already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Code:
    """An entry: what it is called, how much it weighs, why it matters and what to do about it."""

    code: str
    level: Level
    title: str
    why: str
    remedy: str


_ENTRIES = (
    # 1xx: data
    Code("DST101", "note", "loader sharded", "each process takes its slice of every batch that the original draws", ""),
    Code(
        "DST102",
        "error",
        "source of a batch not found",
        "a batch that can't be followed to its loader would be trained on whole by every process",
        "build the DataLoader in this file, or pass the batch through runtime.split(…)",
    ),
    Code("DST103", "note", "batch made by hand", "each process keeps its slice of what this returns", ""),
    Code("DST104", "note", "random numbers per sample", "drawn at the size of the whole batch, then sliced", ""),
    Code(
        "DST105",
        "error",
        "random numbers per sample in a form that can't be sliced",
        "each process would draw other numbers than the original, or a whole batch of them",
        "draw with a function that takes the size, such as torch.randn(batch_size, …)",
    ),
    Code(
        "DST107",
        "error",
        "already distributed",
        "the script shards its data itself, so a second sharding would drop samples",
        "remove the DistributedSampler and the process group; distify adds its own",
    ),
    Code(
        "DST108",
        "warning",
        "squeeze() without dim",
        "a slice of one sample loses its batch dimension",
        "name the dimension: squeeze(1)",
    ),
    Code(
        "DST110",
        "error",
        "dependence on the batch unknown",
        "whether this value must be reduced over the processes can't be told from the source",
        "write the value as a mean or sum over samples, or reduce it yourself: runtime.mean(…), runtime.sum(…)",
    ),
    Code(
        "DST111",
        "error",
        "samples of a batch meet each other",
        "the value depends on pairs of samples, and each process holds only a slice",
        "gather first: runtime.gather(…)",
    ),
    Code("DST112", "note", "dataset downloaded once", "the main process downloads while the others wait", ""),
    Code(
        "DST113",
        "note",
        "random numbers drawn for a sample",
        "each process fetches its slice only, so these are others than in the original: equal in distribution",
        "",
    ),
    Code(
        "DST114",
        "error",
        "rows of the batch can't be put back in order",
        "the batch dimension was flattened together with another one before these values leave the iteration",
        "keep the samples in the first dimension up to here, or gather before the reshape: runtime.gather(…)",
    ),
    Code(
        "DST115",
        "note",
        "samples meet each other",
        "the batch is gathered first, so every process computes the whole",
        "",
    ),
    Code(
        "DST116",
        "error",
        "mean with a divisor of its own inside the forward",
        "the divisor is needed where the value is reduced over the processes, and the forward keeps it to itself",
        "return the per-sample losses, or the sum and its divisor, and divide outside of the forward",
    ),
    Code(
        "DST117",
        "error",
        "per-sample values accumulated over batches",
        "each process would accumulate its own slices only",
        "accumulate a mean or a sum over the samples, or gather first: runtime.gather(…)",
    ),
    Code(
        "DST119",
        "error",
        "module updates a tensor of its own from a slice",
        "what a forward keeps for the next one would differ by process, since each sees its own rows only",
        "update it outside of the forward, from gathered values: runtime.gather(…)",
    ),
    Code(
        "DST120",
        "note",
        "function of another file inside a forward",
        "taken to work sample by sample, as layers do",
        "",
    ),
    Code(
        "DST121",
        "warning",
        "dimension unknown inside a forward",
        "taken not to be the batch's: a layer works within each sample",
        "write the dimension as a number where it is used, or as the default of an argument",
    ),
    Code(
        "DST122",
        "error",
        "padded to the longest of a slice",
        "pad_sequence, and pad_packed_sequence without total_length, pad to the longest sequence that they are given, "
        "and each process holds only a slice of the batch",
        "pad in the loader's collate_fn; say the length: pad_packed_sequence(…, total_length=x.size(1))",
    ),
    Code(
        "DST123",
        "note",
        "random numbers inside a forward",
        "each process draws its own, so these are others than in the original: equal in distribution",
        "",
    ),
    Code(
        "DST125",
        "note",
        "random number of a forward that belongs to no sample",
        "all processes draw the same one, as they must where it decides which layers run",
        "",
    ),
    Code(
        "DST124",
        "error",
        "gradient of a slice inside a forward",
        "the loss is reduced after the forward, so a gradient taken inside it is that of one process's slice",
        "take the gradient outside the forward, where the loss is reduced: runtime.grad(runtime.mean(loss), …)",
    ),
    Code(
        "DST126",
        "error",
        "decision on a slice inside a forward",
        "each process decides on its own rows there, and another one may decide otherwise",
        "take it outside of the forward, on the whole batch: flag = runtime.any(…); out = model(x, flag)",
    ),
    Code(
        "DST130",
        "warning",
        "random numbers seeded by the operating system",
        "every process draws other numbers than the rest",
        "give a fixed seed, or draw from random, numpy.random or torch, whose streams are replicated",
    ),
    Code(
        "DST131",
        "warning",
        "download not guarded",
        "all processes may download the same files at once",
        "do it in a statement of its own, after runtime.init(…): with runtime.main_first():",
    ),
    Code(
        "DST118",
        "warning",
        "hand-made batch left whole",
        "its samples can't be told apart, so every process computes the whole batch: exact, but no faster",
        "build batches with the samples in the first dimension, or split them yourself: runtime.split(…)",
    ),
    Code(
        "DST140",
        "error",
        "nothing to shard",
        "no samples can be told apart in what is trained on, so every process would compute the whole of every step",
        "make batches of it: DataLoader(TensorDataset(x, y), batch_size=len(x)) is one of all samples; or split in the "
        "loop what the model and the loss take: x, y = runtime.split((x, y))",
    ),
    Code(
        "DST141",
        "error",
        "graph trained as a whole",
        "a node's result depends on its neighbours', which a slice of the nodes doesn't hold, so every process would "
        "compute the whole graph",
        "run it on one process; to use several, make each graph (or sampled neighbourhood) a sample of a DataLoader: "
        "tensors of equal sizes, padded, with one graph per row",
    ),
    Code(
        "DST142",
        "error",
        "learning from an environment",
        "what is done next depends on what came before, so every process would play the same episodes and compute "
        "the whole of every step",
        "run it on one process; to use several, train on minibatches of what was collected (as PPO does), by an index "
        "into tensors: obs[index]; or split a batch of the memory: state, action = runtime.split((state, action))",
    ),
    Code(
        "DST143",
        "error",
        "inner loop of its own (meta-learning)",
        "weights are made for each task, one task after another, so every process would compute all of them",
        "run it on one process; to use several, take the samples of a task, for the inner loss and for the outer, "
        "from a DataLoader each: their batches are sharded",
    ),
    Code(
        "DST144",
        "error",
        "trained by a library",
        "the loop over the batches is inside the library: there is none here to convert",
        "start it by the library's own launcher; or write the loop out, then convert",
    ),
    Code(
        "DST145",
        "error",
        "processes started by the script",
        "each of them trains on its own batches at its own pace (as Hogwild does), so no order of steps could be kept",
        "train in one process, in a plain loop over the batches, then convert; torchrun starts the processes",
    ),
    Code(
        "DST146",
        "error",
        "written for TPUs",
        "torch_xla reduces gradients in its own optimizer_step, and there is no backend for it",
        "take torch_xla out, then convert",
    ),
    # 2xx: step and optimizer
    Code(
        "DST202",
        "error",
        "parameters of an optimizer not found",
        "the model that it trains must be known to synchronise its gradients",
        "give it model.parameters() of a model that is built in this file",
    ),
    Code(
        "DST203",
        "error",
        "optimizer not supported by the backend",
        "it keeps references to parameters that the backend replaces",
        "use --backend ddp",
    ),
    Code(
        "DST204",
        "error",
        "accumulation by hand",
        "the script already accumulates gradients, and --accumulate would do so twice",
        "leave out --accumulate, or remove the counting of batches around optimizer.step()",
    ),
    Code(
        "DST205",
        "error",
        "training step not understood",
        "backward, clipping and step of one iteration must stand in one function",
        "move them into one function or loop body",
    ),
    Code(
        "DST206",
        "warning",
        "gradient read or written directly",
        "under a sharded backend .grad holds a part of it",
        "use --backend ddp, or runtime.full(…)",
    ),
    Code("DST207", "note", "step counted per window", "under --accumulate it runs once per optimizer step", ""),
    Code(
        "DST208",
        "error",
        "closure with accumulation",
        "it is evaluated on one batch",
        "leave out --accumulate",
    ),
    Code(
        "DST209",
        "error",
        "optimizer without a name",
        "it must be handed to runtime.prepare(…) together with its model",
        "assign it to a variable where it is built",
    ),
    Code(
        "DST210",
        "error",
        "backward with a gradient of its own",
        "its weight over the processes can't be told",
        "reduce to one number first: (loss * gradient).sum().backward()",
    ),
    Code(
        "DST211",
        "error",
        "optimizers that step in turn",
        "within a window the second would see what the first has not updated yet, unlike with a larger batch",
        "leave out --accumulate, or accumulate by a larger batch size",
    ),
    Code(
        "DST212",
        "warning",
        "loss that is no sum of means under --accumulate",
        "micro-batches add up to a larger batch in means and sums only, so this run differs from one with that batch",
        "leave out --accumulate, or use a larger batch size",
    ),
    Code(
        "DST213",
        "error",
        "result of the window's end used after it",
        "under --accumulate this runs once per window, and what follows runs for every batch",
        "read it only where the optimizer step is too, under the same condition, or leave out --accumulate",
    ),
    Code(
        "DST214",
        "note",
        "windows of batches made by hand",
        "nothing tells which batch is the last of a pass, so a short window goes on into the next pass, and what is "
        "left at the end makes no step",
        "tell it: runtime.accumulate(last=…), or choose sizes that make whole windows",
    ),
    Code(
        "DST215",
        "error",
        "sum over the batch in a loss that is not linear in it, under --accumulate",
        "sums of micro-batches add up over a window, so this would weigh as many times too much as the window holds "
        "batches, or be another number",
        "divide it by the number of rows in one expression (`loss = total / len(x)`), take a mean, or leave out "
        "--accumulate",
    ),
    Code(
        "DST216",
        "error",
        "parameters updated by hand",
        "without an optimizer's step nothing can take the loss scale out, end a window, or update the parts of "
        "parameters that a sharded backend leaves with each process",
        "use torch.optim.SGD (the same update), or --backend ddp with fp32 or bf16 and without --accumulate",
    ),
    Code(
        "DST217",
        "note",
        "gradients added up by hand are sent after every backward",
        "whether a step follows can't be told before the backward, or the script reads gradients elsewhere; the result "
        "is the same",
        "let the condition of the step depend only on what is known before it: sync=… of runtime.backward says when "
        "gradients are needed",
    ),
    Code(
        "DST218",
        "error",
        "learning rate that follows batches, under --accumulate",
        "it is set once per optimizer step, by a count of batches (or the loss of one) where a larger batch would "
        "count less often",
        "count optimizer steps beside optimizer.step() (`updates += 1`) and use that count, or leave out --accumulate",
    ),
    # 3xx: model
    Code(
        "DST301",
        "error",
        "wrapped for several devices already",
        "DataParallel and DistributedDataParallel split batches or gradients a second time",
        "remove the wrapper; distify adds its own",
    ),
    Code(
        "DST305",
        "note",
        "DataParallel removed",
        "each process has one device; names begin with 'module.' still where the script always wrapped its model",
        "",
    ),
    Code(
        "DST306",
        "error",
        "layers on several devices",
        "each process has one device: all parts of the model, and all copies of it, would move there",
        "leave the placement out; --backend fsdp or --backend deepspeed --zero-stage 3 share out what one can't hold",
    ),
    Code(
        "DST307",
        "error",
        "hook on gradients",
        "it is given the gradient of this process's rows, before it is averaged over the processes",
        "change gradients between backward and step: clip_grad_value_, clip_grad_norm_, or p.grad with --backend ddp",
    ),
    Code(
        "DST308",
        "error",
        "parameters changed by hand",
        "they may lie in parts, and what holds them here has no name to open them by",
        "change them where the model has a name, or use --backend ddp",
    ),
    # 4xx: precision
    Code(
        "DST401",
        "note",
        "precision of the script kept",
        "the script sets its own autocast, which decides where --precision isn't given",
        "",
    ),
    Code(
        "DST402",
        "error",
        "loss scaling not understood",
        "a GradScaler is used in a form that can't be replaced",
        "use scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()",
    ),
    Code(
        "DST403",
        "warning",
        "half precision by hand",
        "half() trains without master weights",
        "use --precision fp16",
    ),
    Code(
        "DST404",
        "error",
        "mixed precision of apex",
        "it changes models and optimizers in ways that nothing here can see into",
        "leave it out and give --precision fp16 or bf16, or write it with torch.amp first",
    ),
    Code(
        "DST405",
        "warning",
        "number beyond the range of fp16",
        "a tensor of half precision holds at most 65504 and can't be filled with more: the run ends there",
        "fill with torch.finfo(x.dtype).min or float('-inf'), or use --precision bf16",
    ),
    Code(
        "DST406",
        "warning",
        "ends where a norm is infinite",
        "with fp16 the first norms of gradients are infinite while the loss scale is found, and their steps skipped",
        "go on to the next batch instead, or use --precision bf16",
    ),
    # 6xx: control flow
    Code(
        "DST601",
        "warning",
        "decision on the clock",
        "processes can decide differently and wait for each other for ever",
        "decide by steps, or write runtime.any(condition)",
    ),
    Code(
        "DST603",
        "warning",
        "exception swallowed around a training step",
        "a process that skips the step, or ends without an error, leaves the others waiting in it",
        "let it propagate; what all processes meet alike, such as a NaN, is better asked for with an if",
    ),
    Code(
        "DST604",
        "warning",
        "star import hides names",
        "names can't be resolved",
        "import the names that are used",
    ),
    # 7xx: checkpoints
    Code(
        "DST702",
        "warning",
        "whole model pickled",
        "a sharded model can't be pickled whole",
        "save model.state_dict() instead",
    ),
    Code("DST703", "note", "best model kept as a copy", "state_dict() of a sharded model is gathered first", ""),
    # 8xx: output
    Code("DST801", "note", "written once", "only the main process writes this", ""),
    Code(
        "DST802",
        "warning",
        "file written by every process",
        "all processes write the same file at once",
        "guard it: if runtime.is_main():",
    ),
    Code(
        "DST803",
        "note",
        "name that differs between processes",
        "a name made of the time or a random identifier is another one on every process; the main one writes files",
        "make it of what all processes share: a seed, the date, an option",
    ),
    # 9xx: backend and tool
    Code("DST900", "warning", "suppression without effect", "nothing on this line has that code", "remove the comment"),
    Code(
        "DST902",
        "error",
        "source that can't be edited safely",
        "the parser doesn't give the bytes of this file back",
        "remove form feeds and lone carriage returns at the ends of the file",
    ),
    Code(
        "DST903",
        "error",
        "not supported by the backend",
        "it can't do this exactly",
        "use --backend ddp",
    ),
    Code(
        "DST904",
        "note",
        "devices chosen by the launcher",
        "a script that makes one device visible to itself would give it to all processes",
        "choose with the environment: CUDA_VISIBLE_DEVICES=0,1 torchrun …",
    ),
    Code(
        "DST905",
        "error",
        "analysis takes too long",
        "it is given up after the time that --budget allows",
        "raise it with --budget, DISTIFY_BUDGET or budget in [tool.distify]",
    ),
)

_OF_CHECK = (
    # 1xx: data
    Code(
        "DST151",
        "error",
        "loader not sharded",
        "every process trains on all of its batches, so several do the work of one, or train in another order",
        "by hand: DataLoader(…, sampler=DistributedSampler(dataset)); with the runtime: runtime.shard(DataLoader(…)), "
        "which --fix writes",
    ),
    Code(
        "DST152",
        "warning",
        "set_epoch() missing",
        "a DistributedSampler shuffles by its epoch, so every epoch has the same order",
        "call sampler.set_epoch(epoch) at the start of each epoch",
    ),
    Code(
        "DST153",
        "warning",
        "split drawn by every process",
        "without a seed each process draws another split, so what one validates on another one trains on",
        "give it a seed: random_split(…, generator=torch.Generator().manual_seed(0))",
    ),
    Code(
        "DST154",
        "error",
        "batch left whole",
        "every process computes the whole of a batch, or draws random numbers of its own for it",
        "--fix splits it, or draws at the size of the whole batch: runtime.split(…), runtime.draw(…)",
    ),
    # 2xx: step and optimizer
    Code(
        "DST251",
        "error",
        "backward past the runtime",
        "gradients stay those of one process's slice, are not scaled for fp16, and no window counts them",
        "runtime.backward(loss), which --fix writes",
    ),
    Code(
        "DST252",
        "error",
        "step or clipping past the runtime",
        "an infinity on one process would not skip the step on the others, and a norm would be that of a part",
        "runtime.step(optimizer), runtime.clip_grad_norm_(…), which --fix writes",
    ),
    Code(
        "DST253",
        "error",
        "schedule that follows one process",
        "the learning rate is set by a number of this process's own, so that of the others becomes another one",
        "reduce it first: dist.all_reduce(loss), divided by the number of processes",
    ),
    Code(
        "DST254",
        "warning",
        "no_sync() around the backward alone",
        "whether gradients are sent is decided in the forward, so they are sent all the same",
        "put the forward into the block too",
    ),
    Code(
        "DST255",
        "error",
        "optimizer built before the model was sharded",
        "sharding replaces the parameters, so the optimizer steps what the model no longer uses",
        "shard the model first, then build the optimizer from its parameters",
    ),
    Code(
        "DST256",
        "error",
        "norm of one process's shards",
        "each process clips by the norm of what it holds, so their gradients are scaled differently",
        "model.clip_grad_norm_(…), the method of FullyShardedDataParallel",
    ),
    # 3xx: model
    Code(
        "DST351",
        "error",
        "model or optimizer not prepared",
        "its gradients are not shared, so every process trains a model of its own",
        "runtime.prepare(model, optimizer), which --fix writes",
    ),
    Code(
        "DST352",
        "error",
        "forward past the wrapper",
        "what .module, or another method than the call, computes takes no part in sharing gradients",
        "call the wrapped model itself: model(x)",
    ),
    # 4xx: precision
    Code(
        "DST451",
        "error",
        "clipping before unscaling",
        "gradients are still multiplied by the loss scale, so they are clipped to almost nothing",
        "call scaler.unscale_(optimizer) before it",
    ),
    # 5xx: evaluation
    Code(
        "DST551",
        "warning",
        "number of one process",
        "it is computed from this process's share of the samples, and shown or stored as if it were that of all",
        "reduce it first: dist.all_reduce(total), then divide by the reduced count",
    ),
    Code(
        "DST552",
        "error",
        "value not reduced",
        "it is that of this process's slice, and differs from one process to the next",
        "runtime.mean(…), runtime.sum(…) or runtime.gather(…), which --fix writes",
    ),
    # 6xx: control flow
    Code(
        "DST651",
        "error",
        "collective on some processes only",
        "those that call it wait for the others for ever",
        "let all processes call it, and guard what is done with its result",
    ),
    Code(
        "DST652",
        "error",
        "decision of one process",
        "processes that decide otherwise leave the loop, or skip a step, and the rest wait for them for ever",
        "decide on a reduced value: dist.all_reduce(flag, op=dist.ReduceOp.MAX); with the runtime: runtime.any(…)",
    ),
    # 7xx: checkpoints
    Code(
        "DST751",
        "error",
        "checkpoint written by every process",
        "all of them write to one file at once, and it may end up broken",
        "by hand: if dist.get_rank() == 0:; with the runtime: runtime.save(…), which --fix writes",
    ),
    Code(
        "DST752",
        "note",
        "keys that carry the prefix of a wrapper",
        "the state of the wrapper can't be loaded into the bare model",
        "save model.module.state_dict()",
    ),
    Code(
        "DST753",
        "note",
        "loaded to the device that it was saved from",
        "without map_location all processes put a copy on the first device",
        'torch.load(…, map_location="cpu"), or the device of this process',
    ),
    # 8xx: output
    Code(
        "DST851",
        "warning",
        "tracker started by every process",
        "each of them makes a run of its own, with its own numbers",
        "start it on one: if dist.get_rank() == 0:",
    ),
    # 9xx: backend and tool
    Code(
        "DST951",
        "warning",
        "device of the process not set",
        'a device without a number ("cuda") is the first one, on which all processes would meet',
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything is moved',
    ),
    Code(
        "DST952",
        "note",
        "not converted",
        "the script trains on one process",
        "distify rewrite converts it; --diff shows how",
    ),
    Code(
        "DST953",
        "error",
        "new since the conversion",
        "what was written here runs on every process as if it were the only one",
        "--fix converts it, as another distify rewrite does",
    ),
)

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "1": "data",
        "2": "optimizer",
        "3": "model",
        "4": "precision",
        "5": "evaluation",
        "6": "control-flow",
        "7": "checkpoint",
        "8": "output",
        "9": "backend",
    }
)
"""What the first digit of a code stands for."""

CODES: Mapping[str, Code] = MappingProxyType({entry.code: entry for entry in (*_ENTRIES, *_OF_CHECK)})

OF_CHECK = frozenset(entry.code for entry in _OF_CHECK)
"""Codes that conversions never report."""


def family(code: str) -> str:
    """What a code is about: "data", "optimizer" and so on."""
    return FAMILIES[code[3]]
