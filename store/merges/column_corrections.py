"""What a merge record says of columns whose values a command has changed.

The entry ``corrections`` of the record has lists [id, name, value, generation, rows, changed, filledBefore,
filledAfter, digestBefore, digestAfter]; it is left out where no column was changed. Digests add up: what history has of
a column is what its sources had, less all ``before``, plus all ``after``. So rows that were merged since need no
entry, and a later merge carries the list on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkhaven.store.digest.column_digest import add, from_hex


@dataclass(frozen=True, slots=True)
class ColumnCorrection:
    """One change of one column: of all ``rows`` that history had, of which ``changed`` got another value.

    ``value``: the expression, or the name of the function. ``generation``: the merge that wrote it. ``filled_before``
    and ``filled_after``: rows with a value. ``before`` and ``after``: digests of the column, as 32 hex digits.
    """

    id: int
    name: str
    value: str
    generation: int
    rows: int
    changed: int
    filled_before: int
    filled_after: int
    before: str
    after: str


def corrected(digest: int, corrections: Iterable[ColumnCorrection], column: int) -> int:
    """The digest that a column has after its corrections; ``digest``: that of its sources."""
    for correction in corrections:
        if correction.id == column:
            digest = add(digest, from_hex(correction.after), -from_hex(correction.before))
    return digest


def more_values(corrections: Iterable[ColumnCorrection], column: int) -> int:
    """How many more rows have a value by the corrections of a column; below 0: fewer."""
    return sum(c.filled_after - c.filled_before for c in corrections if c.id == column)


def encode_corrections(corrections: Sequence[ColumnCorrection]) -> list[list[int | str]]:
    return [
        [c.id, c.name, c.value, c.generation, c.rows, c.changed, c.filled_before, c.filled_after, c.before, c.after]
        for c in corrections
    ]


def decode_corrections(entries: Iterable[Sequence[Any]]) -> tuple[ColumnCorrection, ...]:
    """The inverse of ``encode_corrections``; TypeError where a part is missing."""
    return tuple(ColumnCorrection(*entry) for entry in entries)
