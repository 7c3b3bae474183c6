"""What can go wrong while edits are made."""

from __future__ import annotations


class EditError(Exception):
    """A mistake of the tool: an edit that can't be made."""


class UnsafeSource(Exception):
    """The parser doesn't give back the text it was given, so an edit could change other lines (DST902)."""
