"""``@frozen``: the class that ``@dataclass(frozen=True, slots=True)`` makes, in a fifth of the time.

A command imports some two hundred such classes before it does anything, and the standard library compiles six methods
for each of them. Here a class has one of its own, ``__init__``, and shares the others. ``field``, ``fields``,
``replace``, ``asdict`` and pickles work as with ``dataclass``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_ABSENT = object()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Makes a class with annotated fields one of immutable values, which are compared, hashed and shown by them."""
    cls.__doc__ = cls.__doc__ or ""  # else a signature is made up for it, which takes as long as all the rest
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    found = fields(made)
    compared = [each.name for each in found if each.compare]
    own = {"__init__": _init_of(made, found), "_compared": attrgetter(*compared) if compared else type}
    for name, method in {**_SHARED, **own}.items():
        if cls.__dict__.get(name) is None:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _init_of(cls: type, found: Sequence[Field[Any]]) -> Callable[..., None]:
    """``__init__`` with a parameter a field."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    parameters, body = ["self"], ["pass"]
    for each in found:
        name, value, default = each.name, each.name, f"_default_{each.name}"
        if each.default is not MISSING:
            names[default] = each.default
            parameter = f"{name}={default}"
        elif each.default_factory is not MISSING:
            names[default] = each.default_factory
            parameter, value = f"{name}=_ABSENT", f"{default}() if {name} is _ABSENT else {name}"
        else:
            parameter = name
        if each.init:
            parameters.append(parameter)
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body), names)  # noqa: S102  names of a class
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _eq(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_SHARED = {
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
