"""Rows that cannot be stored: kept as data, counted, and weighed against the budget of a batch.

A bad row carries its position and its payload, so that it can be parked and tried again. Its neighbours are not
touched. ``Rejects`` collects the rows of one split; the driver adds up the splits of a batch with ``check_budget``
before anything is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest.spec import BadRowBudget
from store.errors import ErrorBudgetExceeded

MAX_VALUE = 1024  # bytes of a value in messages and in quarantine
MAX_PAYLOAD = 1 << 20  # bytes of a row kept for quarantine
SHOWN = 5  # bad rows named in an error


@dataclass(frozen=True, slots=True)
class BadRow:
    """One rejected row. ``line`` is the physical line, from 1 (Parquet: the row); ``column`` None = the whole row.

    ``reason`` is a short code, ``value`` the offending text of at most 1 KiB, ``payload`` the row as it came (empty
    for Parquet, whose rows have no text of their own).
    """

    file: str
    line: int
    column: str | None
    reason: str
    expected: str
    value: str
    payload: bytes = b""

    def __str__(self) -> str:
        column = f"column {self.column}" if self.column is not None else "the whole row"
        return f"{self.file} line {self.line}, {column}: {self.reason}, found {self.value}, expected {self.expected}"


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    """The text, cut to ``limit`` bytes of UTF-8 with an ellipsis; what cannot be encoded is escaped."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"


def bad_row(
    file: str, line: int, column: str | None, reason: str, expected: str, value: str, payload: bytes = b""
) -> BadRow:
    """A BadRow with its texts cut to their limits."""
    return BadRow(file, line, column, reason, expected, shorten(value), payload[:MAX_PAYLOAD])


@dataclass(slots=True)
class Rejects:
    """What decoding one split left out: bad rows, fields ignored by name, rows read.

    At most ``keep`` rows are held (default: as many as the budget allows, and a few more to show); further ones are
    counted only. Decoding stops with ErrorBudgetExceeded as soon as a split alone has more bad rows than the budget
    allows a batch, since the batch can then only fail.
    """

    budget: BadRowBudget
    rows: list[BadRow] = field(default_factory=list)
    bad: int = 0
    read: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    keep: int | None = None

    def add(self, row: BadRow) -> None:
        """Takes one bad row, whatever the budget says."""
        self.bad += 1
        keep = max(self.budget.max_rows, 0) + SHOWN if self.keep is None else self.keep
        if len(self.rows) < keep:
            self.rows.append(row)

    def add_all(self, rows: Iterable[BadRow]) -> None:
        """Takes bad rows in order and stops when the rows of this split alone break the budget."""
        for row in rows:
            self.add(row)
        if self.bad > self.budget.max_rows:
            raise budget_error(self.rows, self.bad, self.read, self.budget)

    def counts(self) -> dict[str, int]:
        """Counters for the commit record: rows rejected and fields ignored."""
        found = {"rejected": self.bad, "ignored_fields": sum(self.ignored.values())}
        return {name: count for name, count in found.items() if count}


def check_budget(rows: Iterable[BadRow], bad: int, read: int, budget: BadRowBudget) -> None:
    """ErrorBudgetExceeded if ``bad`` of ``read`` rows of a batch are more than the budget allows."""
    if bad > budget.max_rows or (bad and bad > budget.max_fraction * read):
        raise budget_error(list(rows), bad, read, budget)


def budget_error(rows: list[BadRow], bad: int, read: int, budget: BadRowBudget) -> ErrorBudgetExceeded:
    """The error that names the first bad rows with file, line, column, value and reason."""
    first = rows[:SHOWN]
    lines = "".join(f"\n    {row}" for row in first)
    more = f"\n    and {bad - len(first)} more" if bad > len(first) else ""
    return ErrorBudgetExceeded(
        "more bad rows than the budget allows; nothing of this batch was committed",
        where=f"{first[0].file} line {first[0].line}" if first else None,
        expected=f"at most {budget.max_rows} bad rows, and at most {budget.max_fraction:.4g} of all rows of a batch",
        found=f"{bad} bad of {read} rows:{lines}{more}",
        hint="mend the rows or the producer, correct [columns], or raise [bad_rows] max_rows and max_fraction",
    )
