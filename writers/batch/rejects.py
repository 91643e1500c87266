"""Rejected rows of a running batch: scratch files that tasks write, and rows that only the writer can reject.

A task writes rejected rows in chunks, each a Parquet file in the batch's scratch directory, so neither task nor driver
holds them all. A truncated location takes no rows, and of sets or earlier forms of a column it may have no room for
some. The writer finds such rows after decoding, when it has typed columns but neither positions nor payloads; so the
split is read again, and the decoder returns them. A row without room is taken out before the append, and named by its
number among those that a split has for a location.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import encode_rejected
from sparkhaven.writers.append.append import LocationAppender, writing
from sparkhaven.writers.task import Decode, LateRows, RejectedFile, SplitNotes

Row = tuple[Split, pa.RecordBatch]
LateSplits = defaultdict[Split, Counter[LocationKey]]
"""Late rows by split and location."""
LeftOut = Mapping[LocationKey, Mapping[int, str]]
"""Rows by location and number, and the column of each that has no room."""


class RejectedFiles:
    """Writes what one task attempt rejects while its batch runs; ``files`` are those written so far.

    Where it is not ``fenced`` off by the directory it makes it if need be.
    """

    def __init__(self, fs: Fs, directory: Path, task: int, attempt: int, *, fenced: bool = True) -> None:
        self._fs, self._directory, self._fenced = fs, directory, fenced
        self._name = f"rejected.{task}.{attempt}"
        self.files: list[RejectedFile] = []

    def __call__(self, rows: pa.RecordBatch) -> None:
        """Writes one chunk, of schema ``store.quarantine.rejected_rows.REJECTED``."""
        with writing(self._directory, "reject"):
            if not self._fenced:
                self._fs.mkdirs(self._directory)
            path = self._directory / f"{self._name}.{len(self.files)}.parquet"
            self._fs.write_new(path, encode_rejected(pa.Table.from_batches([rows])))
        self.files.append(RejectedFile(path, rows.num_rows))


@runtime_checkable
class ReadsAgain(Protocol):
    """A decoder that can return the rows of a split for some locations."""

    def late(self, split: Split, keys: frozenset[LocationKey], notes: SplitNotes) -> int:
        """Rejects these rows into ``notes`` with their payloads; returns how many."""
        ...


def reject_late(decode: Decode | None, split: Split, keys: Mapping[LocationKey, int], notes: SplitNotes) -> None:
    """Rejects the late rows of a split. FeedError: the split has other rows than before.

    With a decoder that cannot read again the rows have no payload, and the quarantine does not take them.
    """
    if not isinstance(decode, ReadsAgain):
        notes.reject([LateRows(key, rows, split.path) for key, rows in keys.items()], sum(keys.values()))
        return
    rows = sum(keys.values())
    late_rows = decode.late(split, frozenset(keys), notes)
    if late_rows != rows:
        raise _other_rows(split, "late rows", f"{rows} rows for dates that were truncated", late_rows)


def _other_rows(split: Split, why: str, expected: str, found: int) -> FeedError:
    return FeedError(
        f"a source returned other rows when it was read again for {why}",
        where=split.path,
        expected=expected,
        found=f"{found} rows",
        hint="restart the stream. If the error comes back, the source is not repeatable",
    )


@runtime_checkable
class RejectsRows(Protocol):
    """A decoder that can reject single rows of a split."""

    def reject_rows(self, split: Split, left: LeftOut, notes: SplitNotes) -> int:
        """Rejects these rows into ``notes`` with their payloads; returns how many."""
        ...


class RowsWithoutRoom:
    """What was left out so far. Without a decoder that rejects rows nothing is, and the append refuses them all."""

    def __init__(self, decode: Decode | None) -> None:
        self._decode = decode if isinstance(decode, RejectsRows) else None
        self._rows: defaultdict[Split, defaultdict[LocationKey, dict[int, str]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._passed: Counter[tuple[Split, LocationKey]] = Counter()

    def of(self, key: LocationKey) -> dict[Split, tuple[int, ...]]:
        """The numbers of rows of a location, by split."""
        return {split: tuple(sorted(keys[key])) for split, keys in self._rows.items() if keys.get(key)}

    def taken(
        self, appender: LocationAppender, rows: Sequence[Row], before: Mapping[Split, Sequence[int]] | None = None
    ) -> list[Row]:
        """The rows that the location has room for. ``before``: numbers that are not among the rows any more."""
        room = appender.room
        if self._decode is None or not (room.texts or room.forms):
            return list(rows)
        left = room.left_out([batch for _, batch in rows])
        taken, start = [], 0
        for split, batch in rows:
            numbers = self._numbers(split, appender.key, batch.num_rows, (before or {}).get(split, ()))
            mine = [row for row in range(batch.num_rows) if start + row in left] if left else []
            for row in mine:
                self._rows[split][appender.key][int(numbers[row])] = left[start + row]
            start += batch.num_rows
            taken.append((split, batch.take(pa.array(np.delete(np.arange(batch.num_rows), mine))) if mine else batch))
        return taken

    def _numbers(self, split: Split, key: LocationKey, count: int, before: Sequence[int]) -> Sequence[int]:
        """The numbers of the next rows of a split for a location."""
        first = self._passed[split, key]
        gone, number = frozenset(before), first
        numbers: list[int] = []
        while len(numbers) < count:
            if number not in gone:
                numbers.append(number)
            number += 1
        self._passed[split, key] = number
        return numbers

    def reject(self, notes: SplitNotes) -> None:
        """Rejects them. FeedError: a split has other rows than before."""
        for split, keys in self._rows.items():
            count = sum(map(len, keys.values()))
            rejected = 0 if self._decode is None else self._decode.reject_rows(split, keys, notes)
            if rejected != count:
                raise _other_rows(split, "rows without room", f"{count} rows", rejected)


def batches_of(rows: Iterable[Row]) -> list[pa.RecordBatch]:
    """The batches of rows, without their splits."""
    return [batch for _, batch in rows]
