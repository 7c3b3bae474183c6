"""Let the main process alone make the calls that write.

    -plt.savefig("loss.png")
    +runtime.on_main(plt.savefig, "loss.png")

All processes compute what is written (a reduction among the arguments needs all of them: pytorch/pytorch#143536), the
main one writes it; a failure there is raised everywhere (NVIDIA/cosmos-framework#65). Under a condition on the file
system, where a faster process may have decided otherwise, nothing waits for others: `if runtime.is_main():`. Standard
output and trackers (TensorBoard, wandb, MLflow, tqdm) need no edit: the runtime switches them
(huggingface/pytorch-image-models#1309).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Callee, Enclose, Span
from ..findings import finding
from . import Outcome, rule
from ._order import before_start, depends_on_files, on_main_only
from ._source import calls, imported, method_calls

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

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


@rule("output")
def output(facts: Facts, options: Options) -> Iterator[Outcome]:
    """Calls that write files or start programs: by the main process only."""
    for call in writers(facts):
        yield from written(facts, call)


def writers(facts: Facts) -> Iterator[ast.Call]:
    """Calls of functions and methods that write files."""
    yield from calls(facts, *sorted(WRITERS))
    packages = imported(facts)
    methods = {name for package, names in METHODS.items() if package in packages for name in names}
    yield from (call for call, _ in method_calls(facts, *methods))


def written(facts: Facts, call: ast.Call) -> Iterator[Outcome]:
    """A call that writes: by the main process, if its result isn't used."""
    statement = facts.parents[call]
    if on_main_only(facts, call):
        return
    if not isinstance(statement, ast.Expr) or before_start(facts, call):
        yield finding("DST802", call)
    elif depends_on_files(facts, call):
        params = {"runtime": facts.runtime_name}
        span = Span.of(statement)
        yield Enclose(span, span, "is_main", params, kind="output", code="DST801")
    else:
        params = {"runtime": facts.runtime_name, "name": "on_main"}
        yield Callee(Span.of(call), "call", params, ("{{ callee }}",), kind="output", code="DST801")
