"""Download once: the main process first, the others find it done.

    -train_set = datasets.MNIST("data", train=True, download=True)
    +with runtime.main_first():
    +    train_set = datasets.MNIST("data", train=True, download=True)

All processes at once would corrupt the files of each other (pytorch/tutorials#3065, vllm-project/llm-compressor#3030).
Neighbouring statements share a block. A condition on the file system goes into the block with what it decides, so that
all processes enter it, one after the other; also where the script makes a missing file by itself, or removes one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..edits import Enclose, Span
from ..facts.values import Role
from ..findings import finding
from . import Outcome, rule
from ._order import before_start, on_main_only, shared_condition
from ._settle import Training
from ._source import RUNTIME, enclosing_with, has_role, index_in, keyword_value, position
from ._writers import openers, writers

if TYPE_CHECKING:
    from ..facts.model import Facts
    from ..options import Options

FETCHERS = frozenset(
    [
        "urllib.request.urlretrieve",
        "urllib.urlretrieve",
        "wget.download",
        "gdown.download",
        "gdown.download_folder",
        "gdown.cached_download",
        "torch.hub.load",
        "torch.hub.load_state_dict_from_url",
        "torch.hub.download_url_to_file",
        "torch.utils.model_zoo.load_url",
        "torchvision.datasets.utils.download_url",
        "torchvision.datasets.utils.download_and_extract_archive",
        "datasets.load_dataset",
        "nltk.download",
        "huggingface_hub.snapshot_download",
        "huggingface_hub.hf_hub_download",
        "kagglehub.dataset_download",
        "gensim.downloader.load",
        "tiktoken.get_encoding",
    ]
)
POSITIONAL = ("MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100")
DOWNLOAD = 4


@rule("download", order=20)
def download(facts: Facts, options: Options) -> Iterator[Outcome]:
    """`with runtime.main_first():` around statements that download."""
    training = Training(facts)
    found: dict[int, ast.stmt] = {}
    for name, group in facts.calls.items():
        for call in group:
            if not fetches(facts, call, name) or facts.value(call.func).defs or is_settled(facts, call):
                continue
            statement = shared_condition(facts, call) or facts.statement(call)
            if is_simple(statement) and not training.runs(statement) and not before_start(facts, statement):
                found[id(statement)] = statement
            else:
                yield finding("DST131", call)
    for call in [*openers(facts), *writers(facts)]:
        condition = shared_condition(facts, call)
        if condition is not None and not is_settled(facts, call):
            found[id(condition)] = condition
    for first, last in neighbours(facts, sorted(found.values(), key=position)):
        params = {"runtime": facts.runtime_name}
        yield Enclose(Span.of(first), Span.of(last), "main_first", params, kind="download", code="DST112")


def fetches(facts: Facts, call: ast.Call, name: str) -> bool:
    """Whether a call may download."""
    if name in FETCHERS or name.startswith("sklearn.datasets.fetch_"):
        return True
    if name.endswith(".from_pretrained") or name == "timm.create_model":
        return name != "timm.create_model" or is_on(keyword_value(call, "pretrained"))
    if name.startswith("torchvision.models."):
        return is_on(keyword_value(call, "pretrained")) or is_on(keyword_value(call, "weights"))
    switch = keyword_value(call, "download")
    if switch is not None:
        return is_on(switch) and (name.split(".")[0] != "builtins" or has_role(facts, call, Role.DATASET))
    short = name.rsplit(".", 1)[-1]
    plain = not any(isinstance(item, ast.Starred) for item in call.args)
    named = name.startswith("torchvision.datasets.") and short in POSITIONAL
    return named and plain and len(call.args) > DOWNLOAD and is_on(call.args[DOWNLOAD])


def is_on(node: ast.expr | None) -> bool:
    """Whether a switch is given and not plainly off."""
    return node is not None and not (isinstance(node, ast.Constant) and node.value in (None, False))


def is_settled(facts: Facts, call: ast.Call) -> bool:
    """Whether a call is guarded already."""
    return enclosing_with(facts, call, f"{RUNTIME}.main_first") is not None or on_main_only(facts, call)


def is_simple(statement: ast.stmt) -> bool:
    """Whether a statement can be guarded as a whole."""
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.If))


def neighbours(facts: Facts, statements: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """First and last statement of each run of statements that stand one after the other."""
    first = last = None
    for statement in statements:
        block = facts.block(statement)
        if last is not None and facts.block(last) is block and index_in(block, statement) == index_in(block, last) + 1:
            last = statement
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = statement
    if first is not None and last is not None:
        yield first, last
