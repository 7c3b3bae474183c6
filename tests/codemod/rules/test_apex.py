"""The mixed precision of apex is refused where it takes a model over."""

from __future__ import annotations

from tests.codemod.rules.checks import TRAINING, check_noop

INITIALIZED = TRAINING.replace(
    "for x, y", 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\nfor x, y'
)


def test_refused() -> None:
    check_noop("apex", "from apex import amp\n" + INITIALIZED, ["DST404"])


def test_another_amp() -> None:
    check_noop("apex", "import amp\n" + INITIALIZED)
