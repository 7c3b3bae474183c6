"""The names of the formats, for the command line, which starts without the rest."""

from __future__ import annotations

FORMATS = ("text", "json", "github", "sarif", "markdown")
"""What `--format` takes. All but `text` go to standard output as one document, everything else to standard error."""
