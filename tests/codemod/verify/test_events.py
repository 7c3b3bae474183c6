"""TensorBoard's files of events, written here by their format: the library is not needed."""

from __future__ import annotations

import struct

import pytest

from distify.codemod.verify.events import as_text
from distify.codemod.verify.mirror import Mirror
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.saved import compare_files


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def part(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(time, step, *values):
    data = b"\x09" + struct.pack("<d", time) + b"\x10" + varint(step)
    for tag, value in values:
        told = b"\x15" + struct.pack("<f", value) if isinstance(value, float) else part(5, value)
        data += part(5, part(1, part(1, tag.encode()) + told))
    return struct.pack("<QI", len(data), 0) + data + bytes(4)


def file_of(time, loss, *more):
    first = b"\x09" + struct.pack("<d", time) + part(3, b"brain.Event:2")
    start = struct.pack("<QI", len(first), 0) + first + bytes(4)
    return start + event(time + 1, 300, ("train/loss", loss), ("acc", 0.5)) + b"".join(more)


def test_events_are_read_without_their_times():
    data = file_of(1.7e9, 0.25, event(1.7e9, 301, ("weights", b"abc")))
    assert as_text(data) == "step 300 train/loss 0.25\nstep 300 acc 0.5\nstep 301 weights (histogram)\n"
    assert as_text(data[:-3]) == "step 300 train/loss 0.25\nstep 300 acc 0.5\n"
    assert as_text(struct.pack("<QI", 2, 0) + b"\xff\xff" + bytes(4)) is None


@pytest.mark.parametrize(
    ("loss", "more", "equal"),
    [(0.2500001, (), True), (0.26, (), False), (0.25, (event(1.7e9, 301, ("acc", 0.5)),), False)],
)
def test_scalars_of_two_runs(tmp_path, loss, more, equal):
    for side, name, data in (
        ("a", "events.out.tfevents.1714732951.host.123.0", file_of(1.7e9, 0.25)),
        ("b", "events.out.tfevents.1714732999.host.77.0", file_of(1.8e9, loss, *more)),
    ):
        (tmp_path / side).mkdir()
        (tmp_path / side / name).write_bytes(data)
    check = compare_files(*(Mirror("", str(tmp_path / side)) for side in "ab"), Tolerance(), 10)
    assert check.equal is equal
    assert check.compared >= 2
