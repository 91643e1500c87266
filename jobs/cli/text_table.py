"""Tables as text: aligned columns, as many as a terminal has room for, or one column a line.

A terminal is as wide as COLUMNS says, else as it reports itself. Numbers, instants and dates are never cut. A text is
cut where it is wider than ``TEXT`` cells, and whole columns are left out from the right; a line says how many.
Output that is no terminal has all columns, whole.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from unicodedata import category, east_asian_width

TEXT, USUAL, GAP = 24, 80, "  "
ALL_COLUMNS = "--json, or a pipe like `| less -S`, shows all"
_WHOLE = re.compile(r"[-+]?[0-9][-+0-9.,:%/TZeE]*")
_JAMO = range(0x1160, 0x1200)  # vowels and finals, drawn into the syllable that they follow


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, data: bool = False, hint: str = "") -> None:
    """Prints rows as aligned text; numbers to the right.

    ``data``: cells are values of a table, printed as they are; else numbers have thousands separators. ``hint``: how
    to see columns that are left out.
    """
    columns = [_column(name, values, data) for name, values in zip(header, _turned(header, rows), strict=True)]
    terminal = sys.stdout.isatty()
    shown = fitted(columns, terminal_width(os.environ)) if terminal else columns
    bold = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for number, line in enumerate(lines(shown)):
        print(f"\x1b[1m{line}\x1b[0m" if bold and not number else line)
    left_out = [column.name for column in columns[len(shown) :]]
    if left_out:
        names = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
        print(f"{len(left_out)} of {len(columns)} columns are left out ({names}). {hint or ALL_COLUMNS}", flush=True)
    sys.stdout.flush()


def vertical(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints values of a table, one column a line, whole."""
    widest = max((cells(name) for name in header), default=0)
    for number, row in enumerate(rows, 1):
        print(f"row {number}")
        for name, value in zip(header, row, strict=True):
            print(f"  {_padded(name, widest, right=False)}{GAP}{data_text(value)}".rstrip())
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column: its texts, its width in cells, and the width that it needs at least."""

    name: str
    texts: tuple[str, ...]
    right: bool
    width: int
    least: int


def fitted(columns: Sequence[TextColumn], width: int) -> list[TextColumn]:
    """The first columns that fit into so many cells; the first one in any case. Room that is left goes to texts."""
    shown: list[TextColumn] = []
    used = -len(GAP)
    for column in columns:
        used += len(GAP) + column.least
        if shown and used > width:
            used -= len(GAP) + column.least
            break
        shown.append(column)
    room = width - used
    for index, column in enumerate(shown):
        more = max(0, min(room, column.width - column.least))
        room -= more
        shown[index] = TextColumn(column.name, column.texts, column.right, column.least + more, column.least)
    return shown


def lines(columns: Sequence[TextColumn]) -> Iterable[str]:
    for row in zip(*((column.name, *column.texts) for column in columns), strict=True):
        parts = (_padded(text, column.width, right=column.right) for text, column in zip(row, columns, strict=True))
        yield GAP.join(parts).rstrip()


def terminal_width(environ: Mapping[str, str]) -> int:
    """Cells of a line: COLUMNS, else what the terminal says, else 80."""
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL
    except OSError:  # the output is no file
        return USUAL


def cells(text: str) -> int:
    """Cells that a terminal draws it in: 2 for wide signs, 0 for those that combine with the one before."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(sign: str) -> int:
    if category(sign) in ("Mn", "Me", "Cf") or ord(sign) in _JAMO:
        return 0
    return 2 if east_asian_width(sign) in "WF" else 1


def _column(name: str, values: Sequence[object], data: bool) -> TextColumn:
    texts = tuple(data_text(value) if data else _text(value) for value in values)
    title = cells(name)
    width = max((title, *map(cells, texts)))
    whole = all(not isinstance(value, str) or _WHOLE.fullmatch(value) for value in values)
    right = any(isinstance(value, int | float | Decimal) for value in values)
    return TextColumn(name, texts, right, width, width if whole else min(width, max(title, TEXT)))


def _turned(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterable[Sequence[object]]:
    return list(zip(*rows, strict=True)) or [()] * len(header)


def _padded(text: str, width: int, *, right: bool) -> str:
    space = width - cells(text)
    if space < 0:
        text = _cut(text, width)
        space = width - cells(text)
    return " " * space + text if right else text + " " * space


def _cut(text: str, width: int) -> str:
    used = 1
    for count, sign in enumerate(text):
        used += _cells_of(sign)
        if used > width:
            return f"{text[:count]}…"
    return text


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else _printable(str(value))


def data_text(value: object) -> str:
    """A value of a table; control characters are escaped."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "-" if value is None else _printable(str(value))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
