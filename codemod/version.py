"""The version of distify."""

from __future__ import annotations


def version() -> str:
    """The version that is installed; "unknown" where the code runs from a folder that no package manager knows."""
    from importlib import metadata  # which takes as long to import as Python to start

    try:
        return metadata.version("torch-distify")
    except metadata.PackageNotFoundError:
        return "unknown"
