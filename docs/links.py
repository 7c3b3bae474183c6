"""Links of the pages that lead out of docs/: on the site there is nothing behind them, so their words stay alone.

They are for those who read the pages in the repository. What they lead to must exist, else the build fails.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

LOG = logging.getLogger("mkdocs.plugins.links")
LINK = re.compile(r"\[([^\]\n]+)\]\((\.\./[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The text of a page without such links."""
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_uri).parent

    def words(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(docs.resolve()):
            return match[0]
        if not target.exists():
            LOG.warning("%s: link to %s, which does not exist", page.file.src_uri, match[2])
        return match[1]

    return LINK.sub(words, markdown)
