"""Values of a Java stream as plain data: what the reader gives and the writer takes.

``None`` is null, ``str`` a String, ``bool`` a Boolean. Other boxes are small subclasses of ``int`` and
``float``, so that an Integer is not taken for a Long. Maps keep their entries as pairs, in order, because Java
keys that differ (``0.0`` and ``-0.0``, an Integer and a Long) may be equal in Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.format.java.classes import LINKED_HASH_MAP, Field


class JByte(int):
    __slots__ = ()


class JChar(int):
    """A ``java.lang.Character`` as its UTF-16 code unit."""

    __slots__ = ()


class JShort(int):
    __slots__ = ()


class JInt(int):
    __slots__ = ()


class JLong(int):
    __slots__ = ()


class JFloat(float):
    __slots__ = ()


class JDouble(float):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A class as one stream declares it; ``parent`` is the descriptor of its superclass."""

    name: str
    suid: int
    flags: int
    fields: tuple[Field, ...]
    parent: Descriptor | None

    @property
    def lineage(self) -> tuple[Descriptor, ...]:
        """This class and its superclasses, the topmost first."""
        classes: list[Descriptor] = []
        level: Descriptor | None = self
        while level is not None:
            classes.append(level)
            level = level.parent
        return tuple(reversed(classes))


@dataclass(frozen=True, slots=True)
class JClass:
    """A class token: the descriptor stands for the class itself."""

    descriptor: Descriptor

    @property
    def name(self) -> str:
        return self.descriptor.name


@dataclass(frozen=True, slots=True)
class JMap:
    entries: list[tuple[Any, Any]]
    class_name: str = LINKED_HASH_MAP

    def named(self) -> dict[str, Any] | None:
        """The entries by name; None if a key is no String or comes twice."""
        if not all(type(key) is str for key, _ in self.entries):
            return None
        entries = dict(self.entries)
        return entries if len(entries) == len(self.entries) else None


@dataclass(frozen=True, slots=True)
class JArray:
    """An array of objects; arrays of primitives are ``JNumbers``."""

    class_name: str
    items: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class JNumbers:
    """An array of primitives, as numpy values in native byte order."""

    class_name: str
    values: npt.NDArray[Any]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, JNumbers) and self.class_name == other.class_name
        return same and np.array_equal(self.values, other.values)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class OpaqueBytes:
    """Bytes that a class wrote itself; ``offset`` is their position in the file."""

    data: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class JObject:
    """An object of another class: its fields by name, and what its own write method added."""

    descriptor: Descriptor
    fields: dict[str, Any]
    content: list[Any] = field(default_factory=list)

    @property
    def class_name(self) -> str:
        return self.descriptor.name


class Reset:
    """The mark after which handles start again."""


RESET = Reset()
