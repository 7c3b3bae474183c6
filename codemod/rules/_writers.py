"""Which calls write files; no rule by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.values import Role
from ._source import argument, calls, imported, method_calls

if TYPE_CHECKING:
    from ..facts.model import Facts

OPENERS = ("builtins.open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open")
WRITERS = frozenset(
    [
        "numpy.save",
        "numpy.savez",
        "numpy.savez_compressed",
        "numpy.savetxt",
        "matplotlib.pyplot.savefig",
        "matplotlib.pyplot.imsave",
        "matplotlib.pyplot.show",
        "torchvision.utils.save_image",
        "torchvision.io.write_png",
        "torchvision.io.write_jpeg",
        "torchvision.io.write_video",
        "torchaudio.save",
        "imageio.imwrite",
        "imageio.imsave",
        "imageio.mimsave",
        "imageio.mimwrite",
        "imageio.v2.imwrite",
        "imageio.v2.mimsave",
        "imageio.v3.imwrite",
        "cv2.imwrite",
        "scipy.io.savemat",
        "scipy.io.wavfile.write",
        "soundfile.write",
        "joblib.dump",
        "safetensors.torch.save_file",
        "os.remove",
        "os.unlink",
        "os.rename",
        "os.replace",
        "os.rmdir",
        "os.symlink",
        "os.system",
        "shutil.copy",
        "shutil.copy2",
        "shutil.copyfile",
        "shutil.copytree",
        "shutil.move",
        "shutil.rmtree",
        "shutil.make_archive",
        "subprocess.run",
        "subprocess.call",
        "subprocess.check_call",
    ]
)
METHODS = {
    "pandas": ("to_csv", "to_json", "to_pickle", "to_excel", "to_parquet", "to_feather", "to_hdf"),
    "matplotlib": ("savefig",),
    "PIL": ("save",),
    "pathlib": ("write_text", "write_bytes", "unlink", "rmdir", "rename", "touch"),
}


def writers(facts: Facts) -> Iterator[ast.Call]:
    """Calls of functions and methods that write files."""
    yield from calls(facts, *sorted(WRITERS))
    packages = imported(facts) | ({"pathlib"} if has_paths(facts) else set())
    methods = {name for package, names in METHODS.items() if package in packages for name in names}
    for call, callee in method_calls(facts, *methods):
        if is_foreign(facts, callee) and (callee.attr != "save" or call.args):
            yield call


def has_paths(facts: Facts) -> bool:
    """Whether a file may have paths of `pathlib`: it imports it, or opens what has a method for that.

    The conversion of the latter imports it: the next run must not see more paths than the first.
    """
    return "pathlib" in imported(facts) or bool(path_openers(facts))


def is_foreign(facts: Facts, callee: ast.Attribute) -> bool:
    """Whether a method is none of the program's, nor of a model or optimizer."""
    holder = facts.value(callee.value)
    owned = any(holder.has(role) for role in (Role.MODEL, Role.OPTIMIZER, Role.LOADER, Role.DATASET))
    return not facts.value(callee).defs and not holder.classes and not owned


_MODE = re.compile(r"[rwax][bt]?\+?[bt]?")


def opens_for_writing(call: ast.Call, position: int = 1) -> bool:
    """Whether the mode creates a file or appends to one, or does so on one of two paths."""
    mode = argument(call, position, "mode")
    chosen = [mode.body, mode.orelse] if isinstance(mode, ast.IfExp) else [mode]
    texts = [part.value for part in chosen if isinstance(part, ast.Constant)]
    return any(isinstance(t, str) and _MODE.fullmatch(t) is not None and set(t) & set("wa") for t in texts)


def openers(facts: Facts) -> list[ast.Call]:
    """Calls that open a file for writing."""
    return [call for call in calls(facts, *OPENERS) if opens_for_writing(call)]


def path_openers(facts: Facts) -> list[tuple[ast.Call, ast.expr]]:
    """Calls `path.open("w")`, each with its path."""
    found = method_calls(facts, "open")
    return [(c, callee.value) for c, callee in found if opens_for_writing(c, 0) and is_foreign(facts, callee)]
