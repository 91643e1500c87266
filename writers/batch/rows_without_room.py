"""Rows of a batch that a location has no room for: taken out before the append, and rejected when it is done.

A row is named by its number among those that a split has for a location. The split is read again for the payloads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import FeedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.task.decoding import Decode, SplitNotes

Row = tuple[Split, pa.RecordBatch]
LeftOut = Mapping[LocationKey, Mapping[int, str]]
"""Rows by location and number, and the column of each that has no room."""


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
                raise FeedError(
                    "a source returned other rows when it was read again for rows without room",
                    where=split.path,
                    expected=f"{count} rows",
                    found=f"{rejected} rows",
                    hint="restart the stream. If the error comes back, the source is not repeatable",
                )


def batches_of(rows: Iterable[Row]) -> list[pa.RecordBatch]:
    """The batches of rows, without their splits."""
    return [batch for _, batch in rows]
