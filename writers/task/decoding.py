"""The interface of decoders, as the tasks of a batch call them, and what decoding reports besides rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import LastMessage, Split, add_count
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.source_rows import SourceRows


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A scratch file of rejected rows, of schema ``store.quarantine.rejected_rows.REJECTED``."""

    path: Path
    rows: int


@dataclass(slots=True)
class SplitNotes:
    """What decoding reports besides rows; a task has one for all its splits, and it pickles without ``sink``.

    ``rejected`` holds a bounded sample of bad rows as the decoder describes them; ``rejected_rows`` counts all, and
    ``rejected_files`` hold all of them (see ``keep_rejected``). ``counts`` are sums by name
    (ignored fields and the like). ``source``: the rows of the split that is being decoded, as a decoder has to report
    them; ``sources``: those of all splits whose rows were proved to be all there. ``last``: the last messages of splits
    that have them.
    """

    rejected: list[Any] = field(default_factory=list)
    rejected_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejected_files: list[RejectedFile] = field(default_factory=list)
    sink: Callable[[pa.RecordBatch], None] | None = None
    source: SourceRows = field(default_factory=SourceRows)
    sources: SourceRows = field(default_factory=lambda: SourceRows(0))
    last: dict[Split, LastMessage] = field(default_factory=dict)

    def keep_rejected(self, rows: pa.RecordBatch) -> None:
        """Passes rejected rows (schema ``REJECTED``) to the sink, if any; ``reject`` counts them."""
        if self.sink is not None and rows.num_rows:
            self.sink(rows)

    def reject(self, samples: Sequence[Any], rows: int) -> None:
        self.rejected.extend(samples[: max(0, SAMPLES - len(self.rejected))])
        self.rejected_rows += rows

    def count(self, name: str, amount: int) -> None:
        add_count(self.counts, name, amount)

    def require_all(self, taken: int, rejected: int, where: object) -> None:
        """The split has ended. FeedError unless its rows are so many taken and rejected, and those left out."""
        self.source.require(taken, rejected, where)
        self.sources.add(self.source)
        self.source = SourceRows()

    def merge(self, other: SplitNotes) -> None:
        self.reject(other.rejected, other.rejected_rows)
        self.sources.add(other.sources)
        self.rejected_files.extend(other.rejected_files)
        self.last |= other.last
        for name, amount in other.counts.items():
            self.count(name, amount)


SAMPLES = 20  # bad rows that a task keeps for error messages


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows for a truncated location: a bad-row sample that the writer itself finds."""

    key: LocationKey
    rows: int
    file: str


class Decode(Protocol):
    """Decodes a split to routed rows, in order; rejected rows go into ``notes``. Must pickle."""

    def __call__(self, split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
        """Batches hold the stored columns of the table by name; missing ones are null.

        ``notes.source`` gets the number of rows that the split has, by its source, and how many of them are left out.
        """
        ...


class DecodeTables(Protocol):
    """Decodes a split once, to routed rows of several tables. Must pickle."""

    def __call__(
        self, split: Split, notes: Mapping[int, SplitNotes]
    ) -> Iterable[tuple[int, LocationKey, pa.RecordBatch]]:
        """Rows of the tables that have ``notes``, by their number; those of each table in order."""
        ...


@dataclass(frozen=True, slots=True)
class OneTable:
    """A decoder of one table, whose number is 0."""

    decode: Decode

    def __call__(
        self, split: Split, notes: Mapping[int, SplitNotes]
    ) -> Iterable[tuple[int, LocationKey, pa.RecordBatch]]:
        """What ``decode`` gives."""
        for key, batch in self.decode(split, notes[0]):
            yield 0, key, batch
