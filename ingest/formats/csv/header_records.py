"""Whether the first line of a CSV file names its fields, or is a row like those below: told by comparing the two.

A name speaks for a row if it is a number or an instant over a column of the same, or a value that stands below it too;
for a header if it is a text over a column of numbers or instants. Years and evenly spaced whole numbers are what wide
tables have as names, so they prove nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sparkhaven.ingest.sample_rows import shown

Kind = Literal["number", "instant", "boolean", "text", "nothing"]

_NUMBER = re.compile(r"[+-]?([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z|[+-]?(inf|infinity)\Z", re.I)
_WHOLE = re.compile(r"[0-9]{1,9}\Z")
_DAY = r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?"
_INSTANT = re.compile(rf"({_DAY}([T ]{_CLOCK} ?(Z|[+-][0-9]{{2}}:?[0-9]{{2}})?)?|{_CLOCK})\Z")
_BOOLEANS = frozenset({"true", "false"})
_NULLS = frozenset({"", "na", "n/a", "null", "none", "nan", "-", "\\n"})
_YEARS = range(1900, 2101)


@dataclass(frozen=True, slots=True)
class DoubtfulHeader:
    """A first line that looks like a row: the names that do, and whether that is beyond doubt."""

    names: tuple[str, ...]
    certain: bool

    def __str__(self) -> str:
        return ", ".join(shown(name) for name in self.names[:3]) + (", …" if len(self.names) > 3 else "")


def doubtful_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> DoubtfulHeader | None:
    """What speaks against a first line being a header, with the rows below it; None: nothing does."""
    below = [row for row in rows if len(row) == len(names) and list(row) != list(names)]
    columns = list(zip(*below, strict=True)) if below else [()] * len(names)
    alike: list[str] = []
    odd: list[str] = []
    against = 0
    for name, column in zip(names, columns, strict=True):
        kind, of_column = kind_of(name), _common(column)
        if kind == of_column != "text" or (kind == "text" and name in column):
            alike += [name] if kind != "nothing" else []
        elif kind != "nothing" and of_column in ("number", "instant", "boolean"):
            against += 1
        elif kind in ("number", "instant"):
            odd.append(name)
    if not alike and (against or not odd):
        twice = [name for name, count in Counter(filter(None, names)).items() if count > 1]
        return DoubtfulHeader(tuple(twice), False) if twice else None
    if _spaced([*alike, *odd]):
        return None
    proofs = [name for name in alike or odd if kind_of(name) != "text"]
    whole = len(alike) == len(names)
    certain = not against and (bool(alike and proofs) or whole or (not below and not all(map(_WHOLE.match, odd))))
    return DoubtfulHeader(tuple(dict.fromkeys([*alike, *odd])), certain)


def kind_of(text: str) -> Kind:
    """What a text looks like."""
    plain = text.strip()
    if plain.lower() in _NULLS:
        return "nothing"
    if plain.lower() in _BOOLEANS:
        return "boolean"
    if _NUMBER.match(plain):
        return "number"
    return "instant" if _INSTANT.match(plain) else "text"


def _common(column: Sequence[str]) -> Kind:
    """The one kind of all values that are not null; text if there are several."""
    kinds = {kind for value in column if (kind := kind_of(value)) != "nothing"}
    return kinds.pop() if len(kinds) == 1 else "text" if kinds else "nothing"


def _spaced(names: Sequence[str]) -> bool:
    """Whether names are whole numbers as wide tables have them: years, counts from 0 or 1, evenly spaced ones."""
    if not names or not all(map(_WHOLE.match, names)):
        return False
    numbers = list(map(int, names))
    steps = {after - before for before, after in pairwise(numbers)}
    if all(number in _YEARS for number in numbers) and len(set(numbers)) == len(numbers):
        return True
    return numbers in ([0], [1]) or (len(steps) == 1 and steps.pop() > 0 and (len(numbers) > 2 or numbers[0] in (0, 1)))
