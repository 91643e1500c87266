"""Rows that cannot be stored: kept as data, counted, and weighed against the budget of a batch.

A bad row carries its position and its payload, so that it can be quarantined and tried again. Its neighbours are not
touched. ``Rejects`` collects the rows of one split, and hands them on in portions of bounded size where there is a
place for them; the driver adds up the splits of a batch with ``check_budget`` before anything is committed.

Decoding is guarded: a record that raises an exception is a bad row, and no neighbour is touched.

Decoders work on blocks. When one raises what nobody foresaw, all that it has noted of the block is taken back, and the
block is decoded anew in halves, until the records that raise it stand alone. What is no fault of a record goes through:
errors of ours, of the operating system, and of memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.content.lines import LongLine
from sparkhaven.ingest.spec import BadRowBudget
from sparkhaven.ingest.values.typed_rows import Ints, Refusal, TypedRows, Value, attempted, joined_rows, unexpected
from sparkhaven.store.epochs.state.log_values import ABSENT, ABSENT_FIELDS, IGNORED, UNKNOWN_FIELDS, LastMessage
from sparkhaven.store.errors import ErrorBudgetExceeded, FeedError
from sparkhaven.store.quarantine.rejected_rows import REJECTED, Reason
from sparkhaven.store.source_rows import SourceRows

MAX_VALUE = 1024  # bytes of a value in messages and in quarantine
MAX_PAYLOAD = 1 << 20  # bytes of a row kept for quarantine
HELD_BYTES = 4 << 20  # payload that waits in memory to be handed on
SHOWN = 5  # bad rows named in an error
CONTRACT = (Reason.UNKNOWN_FIELD, Reason.ABSENT_FIELD)
NAMED = 20  # ignored fields of a split that are counted by name; all are counted together
MAX_NAME = 64

Unit = Literal["line", "row", "offset"]
MessagePart = Literal["value", "key", "header"]


@dataclass(frozen=True, slots=True)
class BadRow:
    """One rejected row. ``file`` and ``line`` are its position: path and physical line from 1 (Parquet: the row), or
    topic/partition and offset; ``unit`` says which. ``column`` None = the whole row.

    ``value`` is the offending text of at most 1 KiB, ``payload`` at most the first MiB of the row as it came, of
    ``size`` bytes in all. A message without a value has None. ``header`` names the fields of a CSV record, ``key`` and
    ``time_ns`` are of a message or file. ``part``: of a message, what was refused.
    """

    file: str
    line: int
    column: str | None
    refusal: Refusal
    value: str
    payload: bytes | None = b""
    size: int = 0
    unit: Unit = "line"
    header: tuple[str, ...] | None = None
    key: bytes | None = None
    time_ns: int | None = None
    part: MessagePart = "value"

    def __str__(self) -> str:
        column = f"column {self.column}" if self.column is not None else "the whole row"
        value, expected = self.value or "nothing", self.refusal.expected
        position = f"{self.file} {self.unit} {self.line}"
        return f"{position}, {column}: {self.explanation}, found {value}, expected {expected}"

    @property
    def code(self) -> str:
        code = self.refusal.reason.value
        return code if self.part == "value" else f"{self.part}-{code}"

    @property
    def explanation(self) -> str:
        words = self.refusal.explanation
        return words if self.part == "value" else f"{self.part}: {words}"


def shorten(text: str, limit: int = MAX_VALUE) -> str:
    """The text, cut to ``limit`` bytes of UTF-8 with an ellipsis; what cannot be encoded is escaped."""
    data = text[: limit + 1].encode("utf-8", "backslashreplace")
    if len(data) <= limit and len(text) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"


def bad_row(
    file: str, line: int, column: str | None, refusal: Refusal, value: str, payload: bytes = b"", *, unit: Unit = "line"
) -> BadRow:
    """A BadRow with its texts cut to their limits, whose payload was read whole."""
    return BadRow(file, line, column, refusal, shorten(value), payload[:MAX_PAYLOAD], len(payload), unit)


def too_long(file: str, line: LongLine) -> BadRow:
    head = line.head.decode("utf-8", "replace")
    why = Refusal(Reason.LINE_TOO_LONG, "at most 16 MiB a line")
    return replace(bad_row(file, line.number, None, why, head, line.head), size=line.size)


def as_batch(rows: Sequence[BadRow]) -> pa.RecordBatch:
    """Rows in the shape of ``store.quarantine.rejected_rows``."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "SourcePartition": row.file,
                "Position": row.line,
                "Reason": row.code,
                "Detail": row.explanation,
                "Column": row.column,
                "Expected": row.refusal.expected,
                "Value": row.value,
                "Payload": row.payload,
                "PayloadBytes": row.size,
                "Header": None if row.header is None else json.dumps(row.header, ensure_ascii=False),
                "Key": row.key,
                "SourceTime": row.time_ns,
            }
            for row in rows
        ],
        REJECTED,
    )


@dataclass(slots=True)
class Rejects:
    """What decoding one split left out: bad rows, fields ignored by name, rows read; rows that lack a column's field.

    With a ``sink`` every row goes there, in portions of at most ``HELD_BYTES`` of payload and one row, and ``rows`` has
    the first few, without payload, to show. Without one at most ``keep`` rows are held (default: as many as the budget
    allows, and a few more to show); further ones are counted only. Decoding stops with ErrorBudgetExceeded as soon as a
    split alone has more bad rows than the budget allows a batch, since the batch can then only fail. ``header`` and
    ``time_ns`` are put on rows that have none of their own; ``complete`` adds what a decoder does not know of a row.
    ``frozen``: by the stream's contract no row may have other fields than the columns.
    ``others`` are counts by name of what else was left out. ``source``: all rows that the split has, as its feed counts
    them and not its decoder, and those that are neither good nor bad. ``last``: the last message of the split, where it
    has any.
    """

    budget: BadRowBudget
    rows: list[BadRow] = field(default_factory=list)
    bad: int = 0
    read: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)
    keep: int | None = None
    sink: Callable[[Sequence[BadRow]], None] | None = None
    header: tuple[str, ...] | None = None
    time_ns: int | None = None
    complete: Callable[[BadRow], BadRow] | None = None
    frozen: bool = False
    others: Counter[str] = field(default_factory=Counter)
    source: SourceRows = field(default_factory=SourceRows)
    last: LastMessage | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    _held: list[BadRow] = field(default_factory=list)
    _held_bytes: int = 0
    _marks: int = 0

    def mark(self) -> Rejects:
        """What was noted so far. Until ``undo`` or ``settle`` nothing is handed on, so that it can be taken back."""
        self._marks += 1
        return replace(
            self,
            rows=list(self.rows),
            ignored=self.ignored.copy(),
            absent=self.absent.copy(),
            others=self.others.copy(),
            source=replace(self.source),
            reasons=self.reasons.copy(),
            _held=list(self._held),
        )

    def undo(self, mark: Rejects) -> None:
        """Takes back what was noted since a mark."""
        self.rows, self.bad, self.read = mark.rows, mark.bad, mark.read
        self.ignored, self.absent = mark.ignored, mark.absent
        self.others, self.reasons = mark.others, mark.reasons
        self.source.left = mark.source.left
        self._held, self._held_bytes = mark._held, mark._held_bytes
        self.settle()

    def settle(self) -> None:
        """What was noted since a mark stays."""
        self._marks -= 1
        if not self._marks and self._held_bytes >= HELD_BYTES:
            self.flush()

    def add(self, row: BadRow) -> None:
        """Takes one bad row, whatever the budget says. FeedError where it breaks a ``freeze`` contract."""
        if self.frozen and row.refusal.reason in CONTRACT:
            raise contract_broken(self.completed(row))
        self.bad += 1
        row = self.completed(row)
        self.reasons[row.code] += 1
        if self.sink is not None:
            self._hold(row)
            if len(self.rows) < SHOWN:
                self.rows.append(replace(row, payload=b""))
            return
        keep = max(self.budget.max_rows, 0) + SHOWN if self.keep is None else self.keep
        if len(self.rows) < keep:
            self.rows.append(row)

    @contextmanager
    def completing(self, complete: Callable[[BadRow], BadRow] | None) -> Iterator[None]:
        """Within, ``complete`` adds to bad rows what their decoder does not know."""
        before, self.complete = self.complete, complete
        try:
            yield
        finally:
            self.complete = before

    def completed(self, row: BadRow) -> BadRow:
        """The row with what its decoder did not know."""
        return row if self.complete is None else self.complete(row)

    def add_all(self, rows: Iterable[BadRow]) -> None:
        """Takes bad rows in order and stops when the rows of this split alone break the budget."""
        for row in rows:
            self.add(row)
        if self.bad > self.budget.max_rows:
            raise budget_error(self.rows, self.bad, self.read, self.budget)

    def flush(self) -> None:
        """Hands on what still waits; to be called when the split has ended."""
        if self._held and self.sink is not None:
            self.sink(self._held)
        self._held, self._held_bytes = [], 0

    def _hold(self, row: BadRow) -> None:
        header = self.header if row.header is None else row.header
        time_ns = self.time_ns if row.time_ns is None else row.time_ns
        if (header, time_ns) != (row.header, row.time_ns):
            row = replace(row, header=header, time_ns=time_ns)
        self._held.append(row)
        self._held_bytes += len(row.payload or b"")
        if not self._marks and self._held_bytes >= HELD_BYTES:
            self.flush()

    def counts(self) -> dict[str, int]:
        """Counters for the commit record: rows rejected, in all and by reason; fields ignored, in all and by name; and
        the same of fields that columns have and rows lack.
        """
        counters = {"rejected": self.bad, UNKNOWN_FIELDS: sum(self.ignored.values()), **self.others}
        counters[ABSENT_FIELDS] = sum(self.absent.values())
        counters |= {f"rejected.{code}": count for code, count in self.reasons.items()}
        counters |= {f"{IGNORED}{shorten(name, MAX_NAME)}": n for name, n in self.ignored.most_common(NAMED)}
        counters |= {f"{ABSENT}{shorten(name, MAX_NAME)}": n for name, n in self.absent.most_common(NAMED)}
        return {name: count for name, count in counters.items() if count}


def contract_broken(row: BadRow) -> FeedError:
    """The error of ``contract = { columns = "freeze" }``."""
    return FeedError(
        "a row has other fields than the columns of the table, and the contract of the stream is freeze",
        where=f"{row.file} {row.unit} {row.line}",
        expected=row.refusal.expected,
        found=f"{row.explanation}: {row.value}" if row.value else row.explanation,
        hint="correct the producer, or the schema. A field that nobody needs goes under [columns] ignore."
        " Nothing of this batch was committed",
    )


def check_budget(
    rows: Iterable[BadRow], bad: int, read: int, budget: BadRowBudget, *, before: tuple[int, int] = (0, 0)
) -> None:
    """ErrorBudgetExceeded if ``bad`` of ``read`` rows of a batch are more than the budget allows.

    ``before`` are the bad and all rows of the batches before it that its fraction is shared with.
    """
    rows_of_hour = before[1] + read
    part = (before[0] + bad) / max(rows_of_hour, 1)
    enough = rows_of_hour >= budget.min_rows or not budget.allows_any
    if bad > budget.max_rows or (bad and enough and part > budget.max_fraction):
        raise budget_error(list(rows), bad, read, budget, before)


def budget_error(
    rows: list[BadRow], bad: int, read: int, budget: BadRowBudget, before: tuple[int, int] = (0, 0)
) -> ErrorBudgetExceeded:
    earlier = f", after {before[0]} of {before[1]} in the hour before" if before[1] else ""
    first = rows[:SHOWN]
    lines = "".join(f"\n    {row}" for row in first)
    more = f"\n    and {bad - len(first)} more" if bad > len(first) else ""
    return ErrorBudgetExceeded(
        "more bad rows than the budget allows",
        where=f"{first[0].file} {first[0].unit} {first[0].line}" if first else None,
        expected=f"at most {budget.max_rows} bad rows a batch, and at most {budget.max_fraction:.4g} of all in an hour"
        + (f" if they are {budget.min_rows} or more" if budget.min_rows else ""),
        found=f"{bad} bad of {read} rows{earlier}:{lines}{more}",
        hint="correct the rows or the producer, or correct [columns] or [partition]"
        + (", or raise [bad_rows] max_rows and max_fraction" if budget.max_rows else "")
        + ". Nothing of this batch was committed",
    )


FAILED_BLOCKS = "failed_blocks"
"""Count of blocks that were decoded anew, record by record, because of an exception."""

Item = TypeVar("Item")
ExactRows = tuple[Ints, list[Sequence[Value]]]
Refused = Callable[[int, Refusal], BadRow]
"""The bad row of a record, by its index in a block, and why it is refused."""


def guarded(count: int, decode: Callable[[int, int], Item], refused: Refused, rejects: Rejects) -> list[Item]:
    """What ``decode`` makes of the records of a block, from one index to another; fewer at a time where it raises.

    A record that raises alone is a bad row. An exception that its records do not raise one by one goes through.
    """
    return [*_guarded(0, count, count, decode, refused, rejects)]


def _guarded(
    start: int, stop: int, count: int, decode: Callable[[int, int], Item], refused: Refused, rejects: Rejects
) -> Iterator[Item]:
    mark = rejects.mark()
    decoded = attempted(decode, start, stop)
    if not isinstance(decoded, Refusal):
        rejects.settle()
        yield decoded
        return
    rejects.undo(mark)
    if stop - start <= 1:
        rejects.add_all(refused(index, decoded) for index in range(start, stop))
        return
    if stop - start == count:
        rejects.others[FAILED_BLOCKS] += 1
    middle = (start + stop) // 2
    yield from _guarded(start, middle, count, decode, refused, rejects)
    yield from _guarded(middle, stop, count, decode, refused, rejects)


def guarded_rows(count: int, decode: Callable[[int, int], TypedRows], refused: Refused, rejects: Rejects) -> TypedRows:
    """The good rows of a block of records that are read now."""

    def read(index: int, refusal: Refusal) -> BadRow:
        rejects.read += 1
        return refused(index, refusal)

    parts = guarded(count, decode, read, rejects)
    return joined_rows(parts) if parts else decode(0, 0)


def tried(fast: Callable[[], Item], rejects: Rejects) -> Item | None:
    """What a fast pass over a block gives. None where it raises: then the exact pass has all of the block."""
    mark = rejects.mark()
    decoded = attempted(fast)
    if not isinstance(decoded, Refusal):
        rejects.settle()
        return decoded
    rejects.undo(mark)
    rejects.others[FAILED_BLOCKS] += 1
    return None


def exact_rows(outcomes: Iterable[tuple[int, Sequence[Value] | BadRow]], rejects: Rejects) -> ExactRows:
    """Indices and values of the rows that an exact pass takes; the others are rejected."""
    indices: list[int] = []
    values: list[Sequence[Value]] = []
    for index, outcome in outcomes:
        if isinstance(outcome, BadRow):
            rejects.add_all([outcome])
        else:
            indices.append(index)
            values.append(outcome)
    return np.array(indices, np.int64), values


@contextmanager
def guarded_file(file: str) -> Iterator[None]:
    """Turns an exception that is of a file as a whole into a FeedError that names it."""
    try:
        yield
    except Exception as error:
        raise FeedError(
            "feed file cannot be decoded",
            where=file,
            expected="a file that the decoder of its format reads, or an error that names what is wrong",
            found=unexpected(error).explanation,
            hint="move the file out of the feed and report this with it. Nothing of it was committed",
        ) from error
