"""Mixed precision and the scaling of losses."""

from __future__ import annotations

from .code import Code

ENTRIES = (
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
    Code(
        "DST451",
        "error",
        "clipping before unscaling",
        "gradients are still multiplied by the loss scale, so they are clipped to almost nothing",
        "call scaler.unscale_(optimizer) before it",
    ),
)
