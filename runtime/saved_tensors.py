"""Tensors of all ranks in a folder, by `torch.distributed.checkpoint`: each rank writes and reads its own parts.

Nothing that is read is trusted: the index, which torch pickles, may name only the classes that torch writes there, and
a file in it only one that lies beside it.
"""

from __future__ import annotations

import os
import pickle
import stat
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint import metadata as forms
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.state_dict_saver import save

from .backends.pieces import Piece
from .writing import explained

INDEX = ".metadata"


class Unreadable(ValueError):
    """Files are not what `write` leaves; the message says what is wrong with them."""


class Unwritten(RuntimeError):
    """Files could not be written; the message names the rank and the reason."""


def piece(value: Tensor | Piece) -> Piece:
    """A whole tensor as the one piece of itself."""
    return value if isinstance(value, Piece) else Piece(value.shape, value.dtype, [((0,) * value.dim(), value)], value)


def share(tensors: Mapping[str, Tensor | Piece], rank: int, world_size: int) -> dict[str, Piece]:
    """What this rank writes: its pieces, and of what several ranks hold alike that which falls to it."""
    found, loads = dict[str, Piece](), [0] * world_size
    whole = [(key, value) for key, value in tensors.items() if isinstance(value, Tensor)]
    for key, value in sorted(whole, key=lambda item: -item[1].nbytes):
        writer = loads.index(min(loads))
        loads[writer] += value.nbytes + 1024
        if writer == rank:
            found[key] = piece(value)
    for k, (key, part) in enumerate((key, part) for key, part in tensors.items() if isinstance(part, Piece)):
        which, copies = part.copy
        if k % copies == which or 0 in part.shape:
            empty = rank == 0 and 0 in part.shape  # without a box it would not be known
            found[key] = piece(torch.empty(part.shape, dtype=part.dtype)) if empty else part
    return found


class _Saving(DefaultSavePlanner):
    """Writes the boxes of pieces."""

    def __init__(self, pieces: Mapping[str, Piece]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.pieces = pieces

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan([self._item(key, one, box) for key, one in self.pieces.items() for box in one.boxes])
        return self.plan

    def _item(self, key: str, one: Piece, box: tuple[tuple[int, ...], Tensor]) -> WriteItem:
        at = torch.Size(box[0])
        data = TensorWriteData(ChunkStorageMetadata(at, box[1].shape), forms.TensorProperties(one.dtype), one.shape)
        return WriteItem(MetadataIndex(key, at), WriteItemType.SHARD, tensor_data=data)

    def lookup_object(self, index: MetadataIndex) -> Any:
        assert index.offset is not None
        return self.pieces[index.fqn].box(tuple(index.offset))


class _Loading(DefaultLoadPlanner):
    """Reads into the boxes of pieces."""

    def __init__(self, pieces: Mapping[str, Piece], index: Metadata) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.pieces, self.metadata = pieces, index

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items = []
        for key, one in self.pieces.items():
            chunks = [ChunkStorageMetadata(torch.Size(at), values.shape) for at, values in one.boxes]
            items += create_read_items_for_chunk_list(key, self.metadata.state_dict_metadata[key], chunks)  # type: ignore[arg-type]
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        assert index.offset is not None
        return self.pieces[index.fqn].box(tuple(index.offset))


class _Writer(FileSystemWriter):
    """Writes, and then calls a function on rank 0, whose failure is that of all ranks."""

    def __init__(self, folder: str, finished: Callable[[], None]) -> None:
        super().__init__(folder)
        self.finished = finished

    def storage_meta(self) -> None:
        """Nothing: the name of the folder is a temporary one."""
        return None

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        with explained("", str(self.path)):
            return super().write_data(plan, planner)

    def finish(self, metadata: Metadata, results: Any) -> None:
        super().finish(metadata, results)
        self.finished()


def write(
    folder: str, pieces: Mapping[str, Piece], group: dist.ProcessGroup | None, finished: Callable[[], None]
) -> None:
    """Write what all ranks hold; a collective of `group`.

    Args:
        folder: exists, and all ranks see it.
        pieces: of this rank.
        group: `None` for one process.
        finished: called on rank 0 when all files are on the disk.

    Raises:
        Unwritten: a rank could not write, or `finished` failed; on all ranks.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*torch.distributed is disabled.*")
            save({}, storage_writer=_Writer(folder, finished), planner=_Saving(pieces), process_group=group)
    except CheckpointException as error:  # no subclass of Exception
        rank, (first, _) = min(error.failures.items())
        kind = "" if isinstance(first, OSError) else f"{type(first).__name__}: "
        raise Unwritten(f"rank {rank}: {kind}{' '.join(str(first).split())}") from error


class _Unpickler(pickle.Unpickler):
    """Makes what an index is made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) == ("builtins", "getattr"):
            return _member  # how Python before 3.11.4 names a member of an enumeration
        found = _CLASSES.get((module, name))
        if found is None:
            raise Unreadable(f"the file {INDEX} names {module}.{name}, which has no place there; it could run code")
        return found


def _member(kind: Any, name: Any) -> Any:
    """A member of the one enumeration that an index holds, in place of `getattr`."""
    if kind is not forms._MEM_FORMAT_ENCODING or name not in forms._MEM_FORMAT_ENCODING.__members__:
        raise Unreadable(f"the file {INDEX} reads attributes, which has no place there; it could run code")
    return forms._MEM_FORMAT_ENCODING[name]


def _classes() -> dict[tuple[str, str], Any]:
    made: dict[tuple[str, str], Any] = {("torch", "Size"): torch.Size, ("collections", "OrderedDict"): dict}
    names = ["Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "MetadataIndex"]
    for name in [*names, "StorageMeta", "_MEM_FORMAT_ENCODING"]:
        made[forms.__name__, name] = getattr(forms, name)
    made[filesystem.__name__, "_StorageInfo"] = filesystem._StorageInfo
    made["torch.serialization", "_get_layout"] = torch.serialization._get_layout
    return made


_CLASSES = _classes()


class _Reader(FileSystemReader):
    """Reads an index without running what is in it."""

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        with open(os.path.join(self.path, INDEX), "rb") as file:
            found = _Unpickler(file).load()
        _check(str(self.path), found)
        return found  # type: ignore[no-any-return]


def _check(folder: str, index: Any) -> None:
    """That an index is one, and that what it names is there.

    Raises:
        Unreadable: it is not.
    """
    entries, places = getattr(index, "state_dict_metadata", None), getattr(index, "storage_data", None)
    if not isinstance(index, Metadata) or not isinstance(entries, dict) or not isinstance(places, dict):
        raise Unreadable(f"the file {INDEX} is no index of tensors")
    if not all(isinstance(entry, TensorStorageMetadata) for entry in entries.values()):
        raise Unreadable(f"the file {INDEX} names something other than tensors")
    ends: dict[str, int] = {}
    for place in places.values():
        name = place.relative_path
        if name != os.path.basename(name) or getattr(place, "transform_descriptors", None):
            raise Unreadable(f"the file {INDEX} names {name!r}, which does not lie beside it")
        ends[name] = max(ends.get(name, 0), place.offset + place.length)
    for name, end in ends.items():
        path = os.path.join(folder, name)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            raise Unreadable(f"the file {name} is missing") from None
        if not stat.S_ISREG(found.st_mode) or found.st_size < end:
            raise Unreadable(f"the file {name} has {found.st_size} bytes of {end}")


def index(folder: str) -> dict[str, TensorStorageMetadata]:
    """Size and type of each tensor that was written, by key.

    Raises:
        Unreadable, OSError, pickle.UnpicklingError: there is no such folder of ours.
    """
    found: dict[str, Any] = _Reader(folder).read_metadata().state_dict_metadata
    return found


def read(folder: str, pieces: Mapping[str, Piece]) -> None:
    """Fill the boxes of pieces from what was written, on whatever number of ranks; no collective.

    Args:
        folder: that of `write`.
        pieces: with the keys and shapes of what was written; other types are converted.

    Raises:
        Unreadable, OSError, RuntimeError: files are missing or damaged.
    """
    reader = _Reader(folder)
    found = reader.read_metadata()
    planner = _Loading(pieces, found)
    reader.set_up_storage_reader(found, is_coordinator=True)
    plan = reader.prepare_local_plan(planner.create_local_plan())
    with torch.no_grad():
        reader.read_data(planner.finish_plan(plan), planner).wait()
