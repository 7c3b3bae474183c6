"""What a script itself says about its run: options in `runtime.init(…)`, and whether it is distributed."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from ..dataclass import dataclass, field
from ..files import FileError, read
from ..options import DEFAULTS
from ..program import Module, Program
from ..source import SourceError, decode

# Packages that spread a run by themselves, and what a script names that does so with torch alone.
SPREADING = (
    *("accelerate", "colossalai", "composer", "deepspeed", "fastai", "horovod", "ignite", "lightning"),
    *("lightning_fabric", "mmengine", "pytorch_lightning", "torch.distributed"),
)
JOINING = ("init_process_group", "DistributedDataParallel", "fully_shard")


@dataclass(frozen=True)
class Written:
    """An option in a `runtime.init(…)` call.

    Attributes:
        value: what stands there, `None` if it is computed when the script runs.
        place: file and line.
    """

    value: str | int | None
    place: str


@dataclass(frozen=True)
class Script:
    """A script that is to be started.

    Attributes:
        path: of its file.
        starts: where it calls `runtime.init`, file and line; empty if it doesn't.
        written: options that the call gives, by name.
        by_hand: whether it is distributed in another way.
    """

    path: str
    starts: str = ""
    written: Mapping[str, Written] = field(default_factory=dict)
    by_hand: bool = False


def look_at(path: str, texts: Mapping[str, bytes] | None = None) -> Script:
    """Read a script, and the local modules that it imports.

    Args:
        path: of the script.
        texts: contents that replace those of files, by real path.

    Raises:
        FileError: it can't be read.
        SourceError: it is no Python.
    """
    replaced = texts or {}

    def text_of(file: str) -> str:
        data = replaced.get(os.path.realpath(file))
        return decode(read(file) if data is None else data, file).text

    def imported(file: str) -> str | None:
        with suppress(FileError, SourceError):
            return text_of(file)
        return None

    text = text_of(path)
    try:
        program = Program.load(path, text, imported)
    except SyntaxError as error:
        raise SourceError(path, f"not valid Python: {error.msg}", error.lineno, error.offset) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(path, f"not valid Python: {error}") from None
    calls = [(module, call) for module in program.modules for call in init_calls(module)]
    by_hand = any(map(spreads, program.modules))
    if not calls:
        return Script(path, by_hand=by_hand)
    written: dict[str, Written] = {}
    for module, call in calls:
        for name, found in options_of(module, call):
            if name in written and written[name].value != found.value:
                found = Written(None, written[name].place)
            written[name] = found
    module, call = calls[0]
    return Script(path, f"{module.path}:{call.lineno}", written, by_hand)


def spreads(module: Module) -> bool:
    """Whether a file is distributed in another way: by a library, or by hand."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        if any(f"{name}.".startswith(f"{package}.") for name in names for package in SPREADING):
            return True
        if any(name.startswith("transformers.") and name.endswith("Trainer") for name in names):
            return True
        if (getattr(node, "attr", None) or getattr(node, "id", None)) in JOINING:
            return True
    return False


def init_calls(module: Module) -> Iterator[ast.Call]:
    """Calls of `runtime.init`, by whatever name the file has for it."""
    names = set(bound_names(module))
    for node in module.nodes if names else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def bound_names(module: Module) -> Iterator[str]:
    """What `distify.runtime.init` is called in a file."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                name = alias.asname or alias.name
                if (node.module, alias.name) == ("distify", "runtime"):
                    yield f"{name}.init"
                elif (node.module, alias.name) == ("distify.runtime", "init"):
                    yield name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "distify.runtime":
                    yield f"{alias.asname or alias.name}.init"


def options_of(module: Module, call: ast.Call) -> Iterator[tuple[str, Written]]:
    """The options in one call. What `**options` may hold is computed, whatever it is."""
    spread = [keyword for keyword in call.keywords if keyword.arg is None]
    for name in DEFAULTS:
        keyword = next((item for item in call.keywords if item.arg == name), None)
        if keyword is None and not spread:
            continue
        node = (keyword or spread[0]).value
        value = node.value if keyword is not None and isinstance(node, ast.Constant) else None
        if keyword is not None and isinstance(node, ast.Constant) and value is None:
            continue  # None counts as not given
        known = isinstance(value, (str, int)) and not isinstance(value, bool)
        yield name, Written(value if known else None, f"{module.path}:{node.lineno}")  # type: ignore[arg-type]


def module_file(name: str) -> str:
    """The file that `python -m NAME` runs, found from the working directory as Python would.

    Raises:
        FileError: there is none.
    """
    base = os.path.join(*name.split(".")) if name.replace(".", "").isidentifier() else ""
    for file in (f"{base}.py", os.path.join(base, "__main__.py")) if base else ():
        if os.path.isfile(file):
            return file
    raise FileError(f"{name}: no such module in this folder; -m takes a dotted name, such as package.train")
