"""Reads TensorBoard's files of events as text, without the times in them.

Such a file is a row of records (length, checksum, bytes, checksum), each a protobuf of this much:

    Event   1: double wall_time   2: int64 step   5: Summary
    Summary 1: repeated Value
    Value   1: string tag   2: float simple_value   4: image   5: histogram   8: tensor
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # wire types
KINDS = {4: "image", 5: "histogram", 6: "audio", 8: "tensor"}

Field = tuple[int, "int | float | bytes"]


def as_text(data: bytes) -> str | None:
    """One line for each value: its step, its tag, and the number if it is one; `None` if the file can't be read."""
    try:
        return "".join(f"{line}\n" for record in records(data) for line in values(record))
    except (ValueError, IndexError, struct.error):
        return None


def records(data: bytes) -> Iterator[bytes]:
    """The records of a file; one that is cut off at its end is left out."""
    place = 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        if place + 16 + length > len(data):
            return
        yield data[place + 12 : place + 12 + length]
        place += 16 + length


def values(event: bytes) -> Iterator[str]:
    """The lines of one event."""
    found = list(fields(event))
    step = next((value for number, value in found if number == 2 and isinstance(value, int)), 0)
    for number, summary in found:
        if number != 5 or not isinstance(summary, bytes):
            continue
        for _, value in fields(summary):
            if isinstance(value, bytes):
                yield f"step {step} {told(dict(fields(value)))}"


def told(value: dict[int, int | float | bytes]) -> str:
    """The tag and what was written under it; of what is none, what it is."""
    tag = value.get(1, b"")
    name = tag.decode("utf-8", "replace") if isinstance(tag, bytes) else ""
    if 2 in value:
        return f"{name} {value[2]!r}"
    return f"{name} ({', '.join(kind for number, kind in KINDS.items() if number in value) or 'something'})"


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message: number and value."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = varint(data, place)
            yield number, value
        elif kind == BYTES:
            length, place = varint(data, place)
            if place + length > len(data):
                raise ValueError("cut off")
            yield number, data[place : place + length]
            place += length
        elif kind in (DOUBLE, FLOAT):
            form = "<d" if kind == DOUBLE else "<f"
            yield number, struct.unpack_from(form, data, place)[0]
            place += struct.calcsize(form)
        else:
            raise ValueError("unknown wire type")


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it."""
    result = shift = 0
    while True:
        byte = data[place]
        result |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return result, place
