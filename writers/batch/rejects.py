"""Rejected rows of a running batch: scratch files that tasks write, and rows that only the writer can reject.

A task hands rejected rows on in portions; each becomes a Parquet file in the batch's scratch directory, so neither task
nor driver holds them all. A location that was emptied for good takes no rows. Which rows were meant for it the
writer knows too late: it has typed columns, neither positions nor payloads. So the split is read again, and the decoder
gives back the rows that belong there. A batch without such rows pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from store.epochs.state.values import Split
from store.errors import FeedError
from store.io.fs import Fs
from store.layout import LocationKey
from store.rejected import encode_rejected
from writers.append.append import writing
from writers.target import LateRows, RejectedFile, SplitNotes


class RejectedFiles:
    """Writes what one attempt of one task rejects, while its batch runs; ``files`` are those written so far."""

    def __init__(self, fs: Fs, directory: Path, task: int, attempt: int) -> None:
        self._fs, self._directory = fs, directory
        self._name = f"rejected.{task}.{attempt}"
        self.files: list[RejectedFile] = []

    def __call__(self, rows: pa.RecordBatch) -> None:
        """One portion, of schema ``store.rejected.REJECTED``."""
        with writing(self._directory, "reject"):
            path = self._directory / f"{self._name}.{len(self.files)}.parquet"
            self._fs.write_new(path, encode_rejected(pa.Table.from_batches([rows])))
        self.files.append(RejectedFile(path, rows.num_rows))


@dataclass(slots=True)
class LateSplits:
    """How many rows of which splits came for locations that take no more."""

    rows: dict[Split, dict[LocationKey, int]]

    def add(self, split: Split, key: LocationKey, rows: int) -> None:
        """Counts further rows."""
        keys = self.rows.setdefault(split, {})
        keys[key] = keys.get(key, 0) + rows


@runtime_checkable
class ReadsAgain(Protocol):
    """A decoder that can give back the rows of a split that belong to some locations."""

    def late(self, split: Split, keys: frozenset[LocationKey], notes: SplitNotes) -> int:
        """Rejects these rows into ``notes`` with their payloads and returns how many they are."""
        ...


def reject_late(decode: object, split: Split, keys: Mapping[LocationKey, int], notes: SplitNotes) -> None:
    """Rejects the late rows of a split; FeedError when it does not hold the same rows as before.

    A decoder that cannot read again leaves rows without payload, which no quarantine takes.
    """
    if not isinstance(decode, ReadsAgain):
        notes.reject([LateRows(key, rows, split.path) for key, rows in keys.items()], sum(keys.values()))
        return
    found = decode.late(split, frozenset(keys), notes)
    if found != sum(keys.values()):
        raise FeedError(
            "a source gave other rows when it was read again, to find those that came too late",
            where=split.path,
            expected=f"{sum(keys.values())} rows for dates that were truncated",
            found=f"{found} rows",
            hint="start the stream again; if it stays so, the source is not repeatable",
        )
