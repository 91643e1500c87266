"""Rejected rows of a running batch: scratch files that tasks write, and rows that only the writer can reject.

A task writes rejected rows in chunks, each a Parquet file in the batch's scratch directory, so neither task nor driver
holds them all. A truncated location takes no rows. The writer finds such late rows after decoding, when it has typed
columns but neither positions nor payloads; so the split is read again, and the decoder returns the late rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import encode_rejected
from sparkhaven.writers.append.append import writing
from sparkhaven.writers.task.decoding import Decode, LateRows, RejectedFile, SplitNotes


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


LateSplits = defaultdict[Split, Counter[LocationKey]]
"""Late rows by split and location."""


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
    late_rows = decode.late(split, frozenset(keys), notes)
    if late_rows != sum(keys.values()):
        raise FeedError(
            "a source returned other rows when it was read again for late rows",
            where=split.path,
            expected=f"{sum(keys.values())} rows for dates that were truncated",
            found=f"{late_rows} rows",
            hint="restart the stream. If the error comes back, the source is not repeatable",
        )
