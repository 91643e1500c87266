"""Rows of a quarantine, read from its Delta table without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.data_files import read_columns, read_rows
from sparkhaven.writers.quarantine.quarantine_columns import QuarantinedRow
from sparkhaven.writers.quarantine.row_choice import CHOOSING, Chosen, Dead, among, epochs_of, fitting

AT_ONCE = 10_000  # rows whose payloads are held together
AT_ONCE_BYTES = 32 << 20  # of their payloads
PAYLOAD_BYTES = 1 << 20  # at most, of one row
_SORTED = [("SourcePartition", "ascending"), ("Position", "ascending")]
_KEYS = ("SourcePartition", "Position", "PayloadBytes")
_WITHOUT_DATA = ("SourcePartition", "Position", "Reason", "Column", "Expected", "Epoch", "Time")


@dataclass(frozen=True, slots=True)
class QuarantineRows:
    """The rows of one stream in the Delta table at ``place``; ``owner`` is namespace, table and stream.

    ``dead`` epochs (after, up to and including; None: all later) are left out, and rows that they requeued are pending.
    ``at_once``: rows whose payloads are held together, at most.
    """

    fs: Fs
    place: Path
    owner: tuple[str, str, str]
    dead: Dead = ()
    at_once: int = AT_ONCE

    def count(self, chosen: Chosen) -> int:
        return sum(len(keys) for _, keys in self._keys(self._files(), chosen))

    def size(self) -> int:
        """Bytes of the data files, which reading the rows reads whole."""
        return sum(stat.size for path in self._files() if (stat := self.fs.stat(path)) is not None)

    def pending(self, newest: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
        """Pending rows by reason; and the ``newest`` of them, without payloads and values, the last one first."""
        counts: Counter[str] = Counter()
        last: pa.Table | None = None
        for path in self._files():
            rows = read_columns(self.fs, path, list(dict.fromkeys((*CHOOSING, *_WITHOUT_DATA))))
            fits = fitting(rows, self.owner, Chosen(state="pending"), self.dead)
            rows = rows.filter(pa.array(fits)).select(list(_WITHOUT_DATA))
            counts.update(rows["Reason"].to_pylist())
            last = _last(rows if last is None else pa.concat_tables([last, rows]), newest)
        return dict(sorted(counts.items())), [] if last is None else last.to_pylist()

    def rows(self, chosen: Chosen, limit: int = 0) -> Iterator[QuarantinedRow]:
        """Chosen rows by source and position, as mappings of the table's columns; ``limit`` 0: all of them.

        Memory holds the keys of the rows that are returned, and the payloads of a portion of them. CorruptFileError
        for a data file that cannot be read; for the log what ``store.delta.snapshot.read_snapshot`` raises.
        """
        paths = self._files()
        keys: pa.Table | None = None
        for number, some in self._keys(paths, chosen):
            some = some.append_column("File", pa.array(np.full(len(some), number, np.int64)))
            keys = some if keys is None else pa.concat_tables([keys, some])
            if limit and len(keys) > 2 * limit:
                keys = keys.sort_by(_SORTED).slice(0, limit).combine_chunks()
        if keys is None:
            return
        keys = keys.sort_by(_SORTED)
        keys = keys.slice(0, limit) if limit else keys
        for start, end in portions(keys["PayloadBytes"].to_numpy(), self.at_once):
            yield from self._whole(paths, keys.slice(start, end - start))

    def _keys(self, paths: Sequence[Path], chosen: Chosen) -> Iterator[tuple[int, pa.Table]]:
        """Chosen rows by number of the data file: ``_KEYS``, and their number ``Row`` in the file."""
        for number, path in enumerate(paths):
            rows = read_columns(self.fs, path, (*CHOOSING, "PayloadBytes"))
            fits = fitting(rows, self.owner, chosen, self.dead)
            if fits.any():
                keys = rows.select(list(_KEYS)).append_column("Row", pa.array(np.arange(len(rows))))
                yield number, keys.filter(pa.array(fits))

    def _files(self) -> list[Path]:
        return read_snapshot(self.fs, self.place).paths()

    def _whole(self, paths: Sequence[Path], keys: pa.Table) -> Iterator[QuarantinedRow]:
        files, numbers = keys["File"].to_numpy(), keys["Row"].to_numpy()
        order = np.lexsort((numbers, files))  # as they are read
        parts = []
        for file in np.unique(files).tolist():
            wanted = np.sort(numbers[files == file])
            parts += [rows for _, rows in read_rows(self.fs, paths[file], wanted)]
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        rows = pa.concat_tables(parts, promote_options="default").take(pa.array(positions))
        undone = among(epochs_of(rows, "RequeuedEpoch"), self.dead)
        for row, is_undone in zip(rows.to_pylist(), undone.tolist(), strict=True):
            yield row | {"RequeuedEpoch": None, "RequeuedTime": None} if is_undone else row


def portions(
    payloads: np.ndarray[Any, np.dtype[np.int64]], at_once: int = AT_ONCE, size: int = AT_ONCE_BYTES
) -> Iterator[tuple[int, int]]:
    """Start and end of runs of at most ``at_once`` rows, of at most ``size`` bytes of payload unless it is one row."""
    start, held = 0, 0
    for row, payload in enumerate(payloads.tolist()):
        bytes_of = min(payload or 0, PAYLOAD_BYTES)
        if row > start and (held + bytes_of > size or row - start >= at_once):
            yield start, row
            start, held = row, 0
        held += bytes_of
    if start < len(payloads):
        yield start, len(payloads)


def _last(rows: pa.Table, count: int) -> pa.Table:
    """The newest rows, the last one first."""
    order = [("Time", "descending"), ("SourcePartition", "ascending"), ("Position", "descending")]
    return rows.sort_by(order).slice(0, count)
