"""`dataclasses.replace`, fast: values have many fields, and most come from others by changing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(item: Any, /, **changes: Any) -> Any:
        """A frozen object with other fields, past its constructor: the classes of the facts check nothing there."""
        made = object.__new__(type(item))
        made.__dict__.update(item.__dict__)
        made.__dict__.update(changes)
        return made


def quick(cls: type, empty: object) -> None:
    """Gives a frozen class of many fields, most of which have their defaults, a constructor that copies those at once.

    Args:
        cls: whose fields are given by name, but for the first ones.
        empty: an object with defaults alone.
    """
    defaults, names = dict(empty.__dict__), tuple(empty.__dict__)

    def make(self: Any, /, *first: Any, **given: Any) -> None:
        held = self.__dict__
        held.update(defaults)
        held.update(zip(names, first))
        held.update(given)

    cls.__init__ = make  # type: ignore[misc]


__all__ = ["quick", "replace"]
