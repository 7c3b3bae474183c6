"""Which calls may download; no rule by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..facts.values import Role
from ._source import has_role, keyword_value

if TYPE_CHECKING:
    from ..facts.model import Facts

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
