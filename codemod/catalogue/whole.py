"""Data of scripts in which every process would compute the whole: there is nothing to share out."""

from __future__ import annotations

from .code import Code

ENTRIES = (
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
)
