"""Bytes of a file to text and back: encoding cookie, byte-order mark and line ends are kept as they are."""

from __future__ import annotations

import codecs
import io
import tokenize

from .dataclass import dataclass


class SourceError(Exception):
    """A file that can't be read as Python; the message has its place and the reason."""

    def __init__(self, path: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = path if line is None else f"{path}:{line}" if column is None else f"{path}:{line}:{column}"
        super().__init__(f"{place}: {reason}")


@dataclass(frozen=True)
class Source:
    """A decoded file.

    Attributes:
        text: without byte-order mark, line ends as they are.
        encoding: name for `str.encode`.
        mark: the byte-order mark, or nothing.
    """

    text: str
    encoding: str
    mark: bytes

    def encode(self, text: str) -> bytes:
        """Another text in the encoding of this file."""
        return self.mark + text.encode(self.encoding)


def decode(data: bytes, path: str) -> Source:
    """The text of a file.

    Raises:
        SourceError: unknown encoding, or bytes that don't belong to it.
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise SourceError(path, f"not readable as text: {error.msg}") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    body = data[len(mark) :]
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        reason = (
            f"byte 0x{body[error.start]:02x} is not {encoding}; name the encoding in a first line, # coding: latin-1"
        )
        raise SourceError(path, reason, line) from None
    except (LookupError, ValueError) as error:  # of codecs that are no encodings of text, such as zip
        raise SourceError(path, f"not readable as text: {error}") from None
    try:
        back = text.encode(encoding)
    except ValueError:
        back = None
    if back != body:
        raise SourceError(path, f"the encoding {encoding} doesn't give the bytes of this file back")
    return Source(text, encoding, mark)
