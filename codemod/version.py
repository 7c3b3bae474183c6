"""The version of distify."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The version that is installed; "unknown" where the code runs from a folder that no package manager knows."""
    try:
        return metadata.version("torch-distify")
    except metadata.PackageNotFoundError:
        return "unknown"
