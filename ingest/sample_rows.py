"""Rows of a feed as they stand there, before any column has a type: what a schema is inferred from.

``fields`` has the values of each field by its name in ``from``, one a row, in the order of rows. Of JSON they are what
the exact decoder parses; of CSV they are texts, those that stood in quotes as ``Quoted``, and None where the record has
no such field; of Parquet they are ``TypedParts``, one a file, since each file declares its own types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

Form = Literal["json", "csv", "parquet"]

SHOWN = 60  # characters of a value in messages


class Quoted(str):
    """A field of a CSV file that stood in quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypedPart:
    """The values of a field in one file, of one Arrow type. ``far``: in ms, timestamps that ``array`` cannot hold.

    ``old``: they are of type INT96, by a writer that does not say whether they are instants.
    """

    array: pa.Array
    far: pa.TimestampArray | None = None
    old: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that no schema could make a row of: where it is, and why."""

    position: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a feed. ``origin`` is what they were taken from, for people; ``whole``: there are no more than these.

    ``positions`` names each row. ``unnamed`` are fields that ``from`` cannot name, with the reason. Some file with a
    header or a schema does not declare the fields ``lacking``. ``null`` are the texts of CSV that mean null where they
    are not quoted, ``quoted_null``: also where they are. ``messages``: rows have a topic, a partition and an offset.
    ``remarks``: what of the feed should be looked at by a person.
    """

    origin: str
    form: Form
    fields: Mapping[str, Sequence[Any]]
    positions: Sequence[str]
    whole: bool
    unreadable: tuple[Unreadable, ...] = ()
    unnamed: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    null: tuple[str, ...] = ("",)
    quoted_null: bool = False
    messages: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.positions)

    def values(self, name: str) -> Iterator[Any]:
        """The values of a field of JSON or CSV, one a row; null texts of CSV are None."""
        if self.form == "csv":
            for text in self.fields[name]:
                yield None if self.is_null(text) else text
        else:
            yield from self.fields[name]

    def where(self, name: str, wanted: Callable[[str | None], bool]) -> Sample:
        """The rows whose field ``name`` has a wanted text, without fields that none of them has.

        The same sample where there is no such field.
        """
        if name not in self.fields:
            return self
        texts = [None if value is None else str(value) for value in self._plain(name)]
        rows = [row for row, text in enumerate(texts) if wanted(text)]
        fields = {field: self._picked(field, rows) for field in self.fields}
        some = {field: values for field, values in fields.items() if values is not None}
        return replace(self, fields=some, positions=[self.positions[row] for row in rows])

    def _plain(self, name: str) -> Iterator[Any]:
        if self.form != "parquet":
            yield from self.values(name)
        else:
            for part in self.fields[name]:
                yield from part.array.to_pylist()

    def _picked(self, name: str, rows: Sequence[int]) -> Sequence[Any] | None:
        """Some values of a field; None where all of them are null."""
        if self.form != "parquet":
            values, every = [*self.values(name)], self.fields[name]
            return [every[row] for row in rows] if any(values[row] is not None for row in rows) else None
        parts, start = [], 0
        for part in self.fields[name]:
            mine = pa.array([row - start for row in rows if start <= row < start + len(part.array)], pa.int64())
            far = None if part.far is None else part.far.take(mine)
            parts.append(TypedPart(part.array.take(mine), far, part.old))
            start += len(part.array)
        return parts if any(len(part.array) > part.array.null_count or part.far for part in parts) else None

    def is_null(self, text: str | None) -> bool:
        """Whether a field of a CSV record is null."""
        return text is None or (text in self.null and (self.quoted_null or not isinstance(text, Quoted)))


def shown(value: object) -> str:
    """A value for people: printable, and not long."""
    text = str(value)
    return printable(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def printable(text: str) -> str:
    """The text with its line ends, and whatever else cannot be printed, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
