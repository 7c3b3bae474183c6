"""Models: what wraps them, where their layers lie, what changes them."""

from __future__ import annotations

from .code import Code

ENTRIES = (
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
    Code(
        "DST309",
        "note",
        "fullgraph=True taken out",
        "between two graphs parameters are gathered or values shared; the option changes no number, it only lets torch "
        "raise an error where a graph ends",
        "",
    ),
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
)
