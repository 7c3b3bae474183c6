"""What the command tells the processes that it starts, and what they tell it besides their trace."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "_DISTIFY_VERIFY"


@dataclass(frozen=True)
class Settings:
    """What one process is to do.

    Attributes:
        root: the scratch copy that it runs in.
        source: the folder that this is a copy of.
        notes: the file for its trace; `.facts` is added for what it tells besides.
        lead: whether its random streams are fixed: those of the original and of rank 0, which other ranks are to take
            over.
        rewritten: whether it is one of the rewritten script.
        steps: after how many optimizer steps it ends, `None` for its own end.
        dropout: whether dropout stays.
        nudge: whether weights are moved by their last digit.
        path: `PYTHONPATH` as the user had it.
    """

    root: str
    source: str
    notes: str
    lead: bool
    rewritten: bool
    steps: int | None = None
    dropout: bool = True
    nudge: bool = False
    path: str | None = None

    def dumped(self) -> str:
        """As text for the environment."""
        return json.dumps(asdict(self))


def taken() -> Settings | None:
    """The settings of this process; taken out of the environment, so that none that it starts is traced."""
    text = os.environ.pop(VARIABLE, None)
    return None if text is None else Settings(**json.loads(text))


class Facts:
    """What a process tells besides its trace, written whenever something is new."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[str, Any] = {}

    def note(self, name: str, value: Any = True) -> None:
        """Tell one thing; a list grows."""
        if isinstance(value, list):
            value = sorted({*self.known.get(name, []), *value})
        if self.known.get(name) == value:
            return
        self.known[name] = value
        with open(f"{self.path}.new", "w", encoding="utf-8") as file:
            json.dump(self.known, file)
        os.replace(f"{self.path}.new", self.path)
