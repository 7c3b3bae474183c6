"""Progress bars, experiment trackers and log files of the other ranks, switched off in their own classes.

A module that is loaded already is changed at once, another one when the script imports it: the script's own imports
may stand before or after that of the runtime.
"""

from __future__ import annotations

import importlib.abc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

Patch = Callable[[Any], None]


class Nothing:
    """Stands in for a tracker's object: every attribute and call gives it back, `with` and `for` work."""

    def __call__(self, *args: Any, **kwargs: Any) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getitem__(self, key: Any) -> Nothing:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        return None

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False


NOTHING = Nothing()


def install() -> None:
    """Switch trackers and log files of this rank off."""
    os.environ["WANDB_MODE"] = "disabled"
    logging.FileHandler._open = _open_null  # type: ignore[method-assign, assignment]
    _when_loaded(
        {
            "logging.handlers": _patch_rotating,
            "torch.utils.tensorboard.writer": _patch_writer,
            "tensorboardX.writer": _patch_writer,
            "wandb": _patch_wandb,
            "mlflow": _patch_mlflow,
        }
    )


def install_bars() -> None:
    """Switch progress bars of this rank off; they go to standard error, which stays."""
    os.environ["TQDM_DISABLE"] = "1"
    _when_loaded({"tqdm.std": _patch_tqdm})


def _when_loaded(patches: Mapping[str, Patch]) -> None:
    later = dict(patches)
    for name in patches:
        if name in sys.modules:
            later.pop(name)(sys.modules[name])
    if later:
        sys.meta_path.insert(0, _Finder(later))


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find a module, and changes it right after it has run."""

    def __init__(self, patches: dict[str, Patch]) -> None:
        self.patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.patches:
            return None
        others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target)) is not None), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            run, patch = loader.exec_module, self.patches.pop(fullname)

            def exec_module(module: ModuleType) -> None:
                run(module)
                patch(module)

            loader.exec_module = exec_module
        return spec


def _patch_tqdm(module: Any) -> None:
    start = module.tqdm.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **{**kwargs, "disable": True})

    module.tqdm.__init__ = __init__


def _patch_writer(module: Any) -> None:
    """A SummaryWriter that opens no file; `log_dir` stays what the script gave."""

    def __init__(self: Any, log_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        self.log_dir = self.logdir = str(log_dir or kwargs.get("logdir") or "runs")
        self.file_writer = self.all_writers = NOTHING

    kind = module.SummaryWriter
    for name, value in list(vars(kind).items()):
        if isinstance(value, FunctionType) and not name.startswith("__") and name != "get_logdir":
            setattr(kind, name, _nothing)
    kind.__init__ = __init__
    kind.get_logdir = lambda self: self.log_dir


def _patch_wandb(module: Any) -> None:
    start = getattr(module, "init", None)
    if start is not None:
        module.init = lambda *args, **kwargs: start(*args, **{**kwargs, "mode": "disabled"})
    module.login = lambda *args, **kwargs: True


def _patch_mlflow(module: Any) -> None:
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            setattr(module, name, _nothing)
    module.MlflowClient = NOTHING


def _patch_rotating(module: Any) -> None:
    module.BaseRotatingHandler.emit = _nothing  # it would rename the main rank's file


def _nothing(*args: Any, **kwargs: Any) -> Any:
    return NOTHING


def _open_null(handler: logging.FileHandler) -> Any:
    """Other ranks' log files go nowhere: several writers would cut each other's lines, `mode="w"` the whole file."""
    return open(os.devnull, "w", encoding=handler.encoding)
