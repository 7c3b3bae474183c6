"""Whose the comments at the top of a file are."""

from __future__ import annotations

import libcst as cst


def with_own_header(module: cst.Module) -> cst.Module:
    """The module with the comment that belongs to its first statement taken out of the header.

    libcst puts everything above the first statement into the header, so a statement inserted there would come between
    the comment and its statement. The code stays the same.
    """
    blanks = [at for at, line in enumerate(module.header) if line.comment is None]
    if not module.body or not blanks:
        return module
    cut = blanks[-1] + 1
    first = module.body[0]
    moved = first.with_changes(leading_lines=[*module.header[cut:], *first.leading_lines])
    return module.with_changes(header=module.header[:cut], body=[moved, *module.body[1:]])
