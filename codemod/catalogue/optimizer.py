"""Optimizers, and the training step: backward, clipping, accumulation."""

from __future__ import annotations

from .code import Code

ENTRIES = (
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
    Code(
        "DST257",
        "error",
        "step or load on some processes only",
        "their weights or learning rates become others than those of the rest",
        "let all processes do it: take it out of the condition",
    ),
)
