"""Which calls write files; no rule by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    "pathlib": ("write_text", "write_bytes", "unlink", "rmdir", "rename", "touch"),
}


def writers(facts: Facts) -> Iterator[ast.Call]:
    """Calls of functions and methods that write files."""
    yield from calls(facts, *sorted(WRITERS))
    packages = imported(facts)
    methods = {name for package, names in METHODS.items() if package in packages for name in names}
    yield from (call for call, _ in method_calls(facts, *methods))


def opens_for_writing(call: ast.Call) -> bool:
    """Whether the mode creates a file or appends to one."""
    mode = argument(call, 1, "mode")
    text = mode.value if isinstance(mode, ast.Constant) else None
    return isinstance(text, str) and ("w" in text or "a" in text)


def openers(facts: Facts) -> list[ast.Call]:
    """Calls that open a file for writing."""
    return [call for call in calls(facts, *OPENERS) if opens_for_writing(call)]
