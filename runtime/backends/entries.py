"""The methods through which code outside of a model may reach its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType

from torch import nn

API = frozenset(dir(nn.Module))


def entries(module: nn.Module) -> list[str]:
    """Names of the methods through which code outside may reach the parameters of a module."""
    names = ["forward"] if type(module).forward is not nn.Module.forward or "forward" in vars(module) else []
    touched = {*module._modules, *module._parameters}
    for cls in type(module).__mro__:
        if cls.__module__.startswith("torch."):
            continue
        for name, value in vars(cls).items():
            if name in names or name in API or name.startswith("__") or not isinstance(value, FunctionType):
                continue
            if not inspect.isgeneratorfunction(value) and touched & set(names_in(value.__code__)):
                names.append(name)
    return names


def names_in(code: CodeType) -> Iterator[str]:
    """Attribute names that a function uses, inner functions included."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from names_in(const)
