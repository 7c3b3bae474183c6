"""Dataclasses that cost next to nothing to define.

The standard library compiles up to eight functions for each dataclass, in every process anew: for the classes of a
`rewrite --check` that takes twice as long as starting Python. Here classes share their methods, and a constructor is
compiled when the first object is made. Type checkers and `dataclasses.replace`, `fields` and `asdict` see dataclasses
as ever. That nothing is assigned to frozen ones is checked by mypy, not at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    MISSING = object()

    class field:  # as the standard library calls it
        """What is said of a field besides its type; parameters are those of `dataclasses.field`."""

        def __init__(
            self,
            *,
            default: Any = MISSING,
            default_factory: Any = MISSING,
            repr: bool = True,
            compare: bool = True,
            kw_only: bool = False,
        ) -> None:
            self.default, self.default_factory = default, default_factory
            self.repr, self.compare, self.kw_only = repr, compare, kw_only

    def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, order: bool = False) -> Any:
        """Makes a class a dataclass; parameters are those of `dataclasses.dataclass`, methods that it has stay."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, order=order)
        own = dict(vars(cls))
        held = {name: item for base in cls.__mro__[:0:-1] for name, item in vars(base).get("_held", {}).items()}
        for name in cls.__annotations__:
            item = own.get(name, MISSING)
            held[name] = item if isinstance(item, field) else field(default=item)
            if isinstance(item, field) and item.default is MISSING:
                delattr(cls, name)
            elif isinstance(item, field):
                setattr(cls, name, item.default)
        cls._held, cls.__dataclass_fields__ = held, Fields()
        methods = {"__init__": constructor(cls), "__repr__": shown}
        values = attrgetter(*[name for name, item in held.items() if item.compare])
        if eq:
            methods["__eq__"] = lambda self, other: (
                self is other
                or (values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented)
            )
            methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
        if order:
            methods["__lt__"] = lambda self, other: values(self) < values(other)
        for name, method in methods.items():
            if name not in own or (name == "__hash__" and own[name] is None):  # as Python has it beside an `__eq__`
                setattr(cls, name, method)
        return cls

    def constructor(cls: Any) -> Callable[..., None]:
        """The constructor of a class, which is compiled where it is called first."""

        def first(self: Any, /, *args: Any, **kwargs: Any) -> None:
            cls.__init__ = init = compiled(cls)
            init(self, *args, **kwargs)

        return first

    def compiled(cls: Any) -> Callable[..., None]:
        """The constructor of a class: a parameter for each field, then `__post_init__` if there is one."""
        scope: dict[str, Any] = {"MISSING": MISSING}
        parameters, named, body = [], [], []
        for name, item in cls._held.items():
            value, parameter = name, name
            if item.default_factory is not MISSING:
                scope[f"make_{name}"] = item.default_factory
                value, parameter = f"make_{name}() if {name} is MISSING else {name}", f"{name}=MISSING"
            elif item.default is not MISSING:
                scope[f"default_{name}"] = item.default
                parameter = f"{name}=default_{name}"
            (named if item.kw_only else parameters).append(parameter)
            body.append(f"    self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("    self.__post_init__()")
        parameters += ["*", *named] if named else []
        exec("\n".join([f"def __init__(self, {', '.join(parameters)}):", *body]), scope)
        return scope["__init__"]

    def shown(self: Any) -> str:
        """`repr` of an object."""
        parts = (f"{name}={getattr(self, name)!r}" for name, item in self._held.items() if item.repr)
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def replace(item: Any, /, **changes: Any) -> Any:
        """An object with other fields."""
        return type(item)(**{name: getattr(item, name) for name in item._held} | changes)

    class Fields:
        """What the functions of `dataclasses` ask a class for, made where one does."""

        def __get__(self, instance: Any, cls: Any) -> dict[str, Any]:
            import dataclasses

            made = []
            for name, item in cls._held.items():
                given = {"repr": item.repr, "compare": item.compare, "kw_only": item.kw_only}
                for key in ("default", "default_factory"):
                    if getattr(item, key) is not MISSING:
                        given[key] = getattr(item, key)
                made.append((name, object, dataclasses.field(**given)))
            return dataclasses.make_dataclass(cls.__name__, made, eq=False, repr=False).__dataclass_fields__


__all__ = ["dataclass", "field", "replace"]
