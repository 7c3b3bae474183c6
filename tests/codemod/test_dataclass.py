"""Dataclasses that are quick to define do what those of the standard library do."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import pytest

from distify.codemod import dataclass as quick
from distify.codemod.edits import Delete, Span, Wrap


def classes(of):
    """The same classes, made by the one or the other."""

    @of.dataclass(frozen=True, order=True)
    class Point:
        x: int
        y: int = 2

    @of.dataclass(frozen=True)
    class Base:
        name: str = of.field(kw_only=True)
        rule: str = of.field(default="", kw_only=True, compare=False)

    @of.dataclass(frozen=True)
    class Derived(Base):
        at: Point
        held: list = of.field(default_factory=list, repr=False)

    @of.dataclass
    class Changing:
        count: int = 0

        def __post_init__(self):
            self.count += 1

        def __repr__(self):
            return "mine"

    @of.dataclass(eq=False)
    class Itself:
        value: int = 1

    return Point, Base, Derived, Changing, Itself


def outcome(work):
    try:
        return work()
    except TypeError:
        return TypeError


QUESTIONS = [
    lambda point, base, derived, changing, itself: repr(point(1)),
    lambda point, base, derived, changing, itself: repr(derived(point(1), name="a")),
    lambda point, base, derived, changing, itself: repr(changing(3)),
    lambda point, base, derived, changing, itself: changing(3).count,
    lambda point, base, derived, changing, itself: changing(3) == changing(3),
    lambda point, base, derived, changing, itself: hash(changing(3)),
    lambda point, base, derived, changing, itself: point(1) == point(1, 2) != point(2, 2),
    lambda point, base, derived, changing, itself: hash(point(1)) == hash(point(1, 2)),
    lambda point, base, derived, changing, itself: point(1) == (1, 2),
    lambda point, base, derived, changing, itself: sorted([point(2), point(1, 3), point(1)])[0] == point(1),
    lambda point, base, derived, changing, itself: base(name="a", rule="b") == base(name="a"),
    lambda point, base, derived, changing, itself: base(name="a") == derived(point(1), name="a"),
    lambda point, base, derived, changing, itself: itself() == itself(),
    lambda point, base, derived, changing, itself: len({itself(), itself()}),
    lambda point, base, derived, changing, itself: derived(point(1), name="a").held is derived(point(1), name="a").held,
    lambda point, base, derived, changing, itself: point.y,
    lambda point, base, derived, changing, itself: hasattr(derived, "held"),
    lambda point, base, derived, changing, itself: point(),
    lambda point, base, derived, changing, itself: point(1, 2, 3),
    lambda point, base, derived, changing, itself: base("a"),
    lambda point, base, derived, changing, itself: derived(name="a"),
    lambda point, base, derived, changing, itself: dataclasses.asdict(derived(point(1), [4], name="a")),
    lambda point, base, derived, changing, itself: repr(dataclasses.replace(point(1), y=5)),
    lambda point, base, derived, changing, itself: dataclasses.replace(changing(3)).count,
    lambda point, base, derived, changing, itself: [(item.name, item.compare) for item in dataclasses.fields(derived)],
    lambda point, base, derived, changing, itself: dataclasses.is_dataclass(point),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_as_those_of_the_standard_library(question):
    mine, theirs = (outcome(lambda of=of: question(*classes(of))) for of in (quick, dataclasses))
    assert mine == theirs


def test_replacing_goes_through_what_a_class_does_after_its_constructor():
    *_, changing, _ = classes(quick)
    assert quick.replace(changing(3)).count == dataclasses.replace(changing(3)).count == 5


def test_objects_are_pickled():
    edits = [Wrap(Span(1, 0, 1, 4), "{{ node }}.x", kind="reduction"), Delete(Span(2, 0, 2, 4), kind="clip", rule="a")]
    assert pickle.loads(pickle.dumps(edits)) == edits


def test_defining_one_compiles_nothing():
    code = (
        "import builtins, sys\nfrom distify.codemod.dataclass import dataclass\n"
        "kept, builtins.exec = exec, None\n@dataclass(frozen=True)\nclass A:\n    x: int\n"
        "builtins.exec = kept\nassert A(1).x == 1\nassert 'dataclasses' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", "from __future__ import annotations\n" + code], check=True)
