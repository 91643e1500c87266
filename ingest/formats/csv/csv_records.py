"""CSV text to records: a small exact reader, and which lines may be records that go on in the next line.

Whether the first line names the fields, or is a row, is told by comparing it with those below. A name speaks for a row
if it is a number or an instant over a column of the same, or a value that stands below it too; for a header if it is a
text over a column of numbers or instants. Years and evenly spaced whole numbers are what wide tables have as names, so
they prove nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.sample_rows import shown
from sparkhaven.ingest.spec import CsvOptions
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.errors import FeedError
from sparkhaven.store.quarantine.rejected_rows import Reason

Field = tuple[str, bool]  # text, and whether it was quoted


class CsvRecordError(ValueError):
    """A text that is no record."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.words)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Header:
    """Names of the fields of a file, in order."""

    names: tuple[str, ...]

    @property
    def one_field(self) -> bool:
        """Whether an empty line is a record: one whose only field is empty."""
        return len(self.names) == 1


def read_record(text: str, delimiter: str, quote: str) -> list[Field]:
    """Fields of one record without its line end.

    CsvRecordError if a quoted field does not end, or text follows a closing quote.
    """
    fields: list[Field] = []
    offset, end = 0, len(text)
    while True:
        if quote and text.startswith(quote, offset):
            parts: list[str] = []
            offset += 1
            while True:
                close = text.find(quote, offset)
                if close < 0:
                    raise CsvRecordError(Reason.OPEN_QUOTE)
                parts.append(text[offset:close])
                offset = close + 1
                if not text.startswith(quote, offset):
                    break
                parts.append(quote)
                offset += 1
            fields.append(("".join(parts), True))
            if offset < end and text[offset] != delimiter:
                raise CsvRecordError(Reason.AFTER_QUOTE)
        else:
            stop = text.find(delimiter, offset)
            stop = end if stop < 0 else stop
            fields.append((text[offset:stop], False))
            offset = stop
        if offset >= end:
            return fields
        offset += 1


def repeated(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """The names among ``taken`` that stand more than once. Without ``taken``: all but the empty name."""
    doubled = (name for name, count in Counter(names).items() if count > 1)
    return sorted(name for name in doubled if (name in taken if taken else name))


def read_header(line: bytes, options: CsvOptions, where: str, taken: Collection[str] = ()) -> Header:
    """Names of a line.

    FeedError if it cannot be read, has a carriage return inside, or names a ``taken`` field twice.
    """
    try:
        names = [name for name, _ in read_record(line.decode("utf-8"), options.delimiter, options.quote)]
    except ValueError as error:
        raise FeedError(
            "header of a CSV file cannot be read",
            where=where,
            expected="one record in UTF-8",
            found=f"{error}: {line[:200]!r}",
            hint='correct the producer, or name the encoding of the files in [feed], like encoding = "utf-16"',
        ) from error
    if options.trailing_delimiter and len(names) > 1 and not names[-1]:
        names.pop()
    if b"\r" in line:
        raise FeedError(
            "header of a CSV file has a carriage return inside",
            where=where,
            expected="lines that end with a line feed",
            found=repr(line[:200]),
        )
    twice = repeated(names, taken)
    if twice:
        raise FeedError(
            "header of a CSV file names a field twice",
            where=where,
            found=", ".join(twice),
            hint="give the fields different names, or set header = false and name them in the settings",
        )
    return Header(tuple(names))


def open_lines(block: LineBlock, first: int, options: CsvOptions) -> Ints:
    """Lines from ``first`` on that may end inside of quotes: all others end outside of them."""
    odd = np.zeros(len(block), np.bool_)
    if options.quote:
        odd |= _oddly_quoted(block, options)
    odd[:first] = False
    return np.flatnonzero(odd & ~commented(block, options))


def blank(block: LineBlock, index: int) -> bool:
    """Whether a line has nothing but its end. Such a line is no header, and a record only if it has one field."""
    return not block.framed and not block.line(index)


def commented(block: LineBlock, options: CsvOptions) -> Mask:
    """Which lines begin as comments do."""
    mask = np.zeros(len(block), np.bool_)
    mark = options.comment.encode()
    if not mark or block.framed:
        return mask
    starts = block.ends[:-1].astype(np.int64)
    octets = np.frombuffer(block.data, np.uint8)
    mask |= np.diff(block.ends) >= len(mark)
    for index, byte in enumerate(mark):
        mask[mask] = octets[starts[mask] + index] == byte
    return mask


def _oddly_quoted(block: LineBlock, options: CsvOptions) -> Mask:
    """Which lines have an odd number of quotes, or one that neither opens, closes nor doubles as it should."""
    odd, octets = np.zeros(len(block), np.bool_), np.frombuffer(block.data, np.uint8)
    quote, delimiter = ord(options.quote), ord(options.delimiter)
    quotes: Ints = np.flatnonzero(octets == quote)
    if not len(quotes):
        return odd
    line = np.searchsorted(block.ends, quotes, side="right") - 1
    first = np.searchsorted(quotes, block.ends[line])  # index of the first quote of the same line
    opening = (np.arange(len(quotes)) - first) % 2 == 0
    before = np.where(quotes > block.ends[line], octets[np.maximum(quotes - 1, 0)], 0x0A)
    after = octets[np.minimum(quotes + 1, len(octets) - 1)]
    after = np.where(quotes + 1 < len(octets), after, 0x0A)
    opens = (before == delimiter) | (before == 0x0A) | (before == quote)
    closes = (after == delimiter) | (after == 0x0A) | (after == 0x0D) | (after == quote)
    odd[line[~np.where(opening, opens, closes)]] = True
    odd |= np.diff(np.searchsorted(quotes, block.ends)) % 2 == 1
    return odd


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
