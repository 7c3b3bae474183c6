"""DeepSpeed, imported when a run asks for it, with its messages kept off standard output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from ..config import ConfigError
from ..state import state

VERSION = (0, 19, 8)
BUCKET = 40_000_000  # gradients that are sent at a time
NAMES = {None: "fp32", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def load() -> Any:
    """The module `deepspeed`, for the device of this run.

    Raises:
        ConfigError: it is not installed, too old, or can't do what the run asks for.
    """
    assert state.device is not None
    assert state.precision is not None
    if state.precision.name == "fp16" and state.device.type == "cpu":
        raise ConfigError(
            "backend='deepspeed' with precision='fp16' needs a GPU: DeepSpeed has no fp16 on the CPU. Use "
            "precision='bf16' or 'fp32', or backend='ddp'."
        )
    os.environ.setdefault("DS_ACCELERATOR", state.device.type)
    with quiet():
        try:
            import deepspeed
        except Exception as error:  # its import compiles, probes and reads the environment
            raise ConfigError(
                "backend='deepspeed' needs the package deepspeed, which can't be imported "
                f"({error}). Install it with `pip install 'torch-distify[deepspeed]'`, or use backend='fsdp'."
            ) from error
    found = tuple(int(part) for part in deepspeed.__version__.split("+")[0].split(".")[:3] if part.isdigit())
    if found < VERSION:
        raise ConfigError(
            f"backend='deepspeed' needs DeepSpeed {'.'.join(map(str, VERSION))} or newer, found "
            f"{deepspeed.__version__}: older ones reduce gradients when they think that a window is complete. "
            "Upgrade it with `pip install -U deepspeed`."
        )
    for handler in logging.getLogger("DeepSpeed").handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.__stdout__):
            handler.setStream(sys.stderr)
    return deepspeed


def connect(deepspeed: Any) -> None:
    """Let DeepSpeed use the process group that exists.

    On the CPU it would compile a C++ extension for shared-memory collectives at this point, with one rank waiting for
    another's lock; the group's own do.
    """
    backend: Any = import_module("deepspeed.comm.torch")
    compiled, backend.build_shm_op = backend.build_shm_op, lambda: None
    try:
        deepspeed.init_distributed(dist_backend=dist.get_backend(), auto_mpi_discovery=False, verbose=False)
    finally:
        backend.build_shm_op = compiled


def build(
    deepspeed: Any, modules: Sequence[nn.Module], optimizer: Optimizer, stage: int, dtype: torch.dtype | None
) -> Any:
    """An engine over modules and an optimizer whose groups it may change.

    Parameters that are frozen now are cut too: they may be thawed.
    """
    with quiet():
        from deepspeed.runtime.config import DeepSpeedConfig
        from deepspeed.runtime.engine import ZERO_OPTIMIZATION, DeepSpeedEngine

    class Engine(DeepSpeedEngine):  # type: ignore[misc]
        """Takes the ZeRO optimizer for every precision."""

        def _do_optimizer_sanity_check(self, basic_optimizer: Any) -> Any:
            super()._do_optimizer_sanity_check(basic_optimizer)
            return ZERO_OPTIMIZATION

        def _broadcast_model(self) -> None:
            """`prepare` has done it; DeepSpeed's way fails for scalars."""

    model = modules[0] if len(modules) == 1 else nn.ModuleList(modules)
    frozen = [p for group in optimizer.param_groups for p in group["params"] if not p.requires_grad]
    options = config(stage, dtype, [p.numel() for p in model.parameters()])
    for p in frozen:
        p.requires_grad_(True)
    try:
        with quiet(), equal_parameters():
            connect(deepspeed)
            found = DeepSpeedConfig(options)
            return Engine(args=None, model=model, optimizer=optimizer, config=options, config_class=found)
    finally:
        for p in frozen:
            p.requires_grad_(False)


@contextmanager
def equal_parameters() -> Iterator[None]:
    """Building a ZeRO 3 engine without the broadcast of each parameter: they are equal, and it fails for scalars."""
    init: Any = import_module("deepspeed.runtime.zero.partition_parameters").Init
    original = init._zero_init_param

    def zero_init_param(self: Any, parameter: Any) -> None:
        self._convert_to_deepspeed_param(parameter)
        parameter.partition()

    init._zero_init_param = zero_init_param
    try:
        yield
    finally:
        init._zero_init_param = original


@contextmanager
def quiet() -> Iterator[None]:
    """What is printed inside, by this process or one that it starts, goes to standard error."""
    stream = sys.stdout
    stream.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = stream
        os.dup2(kept, 1)
        os.close(kept)


def config(stage: int, dtype: torch.dtype | None, sizes: Sequence[int]) -> dict[str, Any]:
    """The configuration of one engine: every key that changes arithmetic is set, no default of DeepSpeed is relied on.

    Args:
        stage: ZeRO stage, 1 to 3.
        dtype: type in which the run computes, `None` for fp32.
        sizes: elements of each parameter of the model.

    Stages 2 and 3 reduce gradients in the type in which they are computed, as DeepSpeed does by itself; stage 1, which
    adds up those of several backward calls before, in the type in which it adds. Clipping, loss scale and accumulation
    are the runtime's: DeepSpeed would clip at norm 1.0 without being asked.
    """
    total = max(2, sum(sizes))
    # Reduced while the backward goes on. One that holds no whole parameter would be passed by, and its memory given
    # back while it is still being reduced.
    bucket = max(min(BUCKET, total), *sizes, 1)
    gathered = min(500_000_000, total)
    kind = "fp32" if stage == 1 else NAMES[dtype]
    zero: dict[str, Any] = {
        "stage": stage,
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "overlap_comm": stage > 1,
        "reduce_bucket_size": bucket + bucket % 2,  # DeepSpeed wants even ones
        "allgather_bucket_size": gathered + gathered % 2,
        "round_robin_gradients": False,
        "ignore_unused_parameters": True,
        "elastic_checkpoint": False,
        "zero_quantized_weights": False,
        "zero_quantized_gradients": False,
        "zero_quantized_nontrainable_weights": False,
        "zero_hpz_partition_size": 1,
        # DeepSpeed insists on it for ZeRO 1 in bf16
        "compute_grad_norm": stage == 3 or (stage == 1 and dtype is torch.bfloat16),
    }
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": 0.0,
        "prescale_gradients": False,
        "gradient_predivide_factor": 1.0,
        "gradient_allreduce_op": "mean",
        "communication_data_type": kind,
        # stage 2 adds up in fp32 what it took from DeepSpeed after each backward
        "data_types": {"grad_accum_dtype": kind if stage == 2 else "fp32", "keep_in_fp32_modules": []},
        "fp16": {"enabled": dtype is torch.float16, "loss_scale": 1.0, "auto_cast": False},
        "bf16": {"enabled": dtype is torch.bfloat16},
        "torch_autocast": {"enabled": False},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "wall_clock_breakdown": False,
    }
