"""Rows of the quarantine, read from its Delta table without Spark, for read-only commands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.feeds.delta.snapshot import look, snapshot
from store.errors import CorruptFileError
from store.io.fs import Fs
from store.types.frozen import frozen
from writers.quarantine.table import Chosen

AT_ONCE = 10_000  # rows whose payloads are held together
UTC_TIME = pa.timestamp("us", tz="UTC")
_CHOOSING = ("SourcePartition", "Position", "Reason", "Epoch", "RequeuedEpoch")
_OWNER = ("Namespace", "TableName", "Stream")
_WITHOUT_DATA = ("SourcePartition", "Position", "Reason", "Column", "Expected", "Epoch", "Time")

Dead = Sequence[tuple[int, int | None]]


@frozen
class QuarantineRows:
    """The rows of one stream in the Delta table at ``place``; ``owner`` is namespace, table and stream.

    ``dead`` epochs (after, up to and including; None: all later) are left out, and rows that they requeued are pending.
    """

    fs: Fs
    place: Path
    owner: tuple[str, str, str]
    dead: Dead = ()

    def count(self, chosen: Chosen) -> int:
        """How many rows are chosen."""
        return sum(len(found) for _, found in self._keys(chosen))

    def size(self) -> int:
        """Bytes of the data files, which reading the rows reads whole."""
        return sum(stat.size for path in self._files() if (stat := self.fs.stat(path)) is not None)

    def pending(self, newest: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
        """Pending rows by reason; and the ``newest`` of them, without payloads and values, the last one first."""
        counts: Counter[str] = Counter()
        parts = []
        for path in self._files():
            table = self._read(path, (*_OWNER, *_WITHOUT_DATA, "RequeuedEpoch"))
            found = table.filter(self._fits(table, Chosen(state="pending"))).select(list(_WITHOUT_DATA))
            counts.update(found["Reason"].to_pylist())
            parts.append(_last(found, newest))
        rows = _last(pa.concat_tables(parts), newest).to_pylist() if parts else []
        return dict(sorted(counts.items())), rows

    def rows(self, chosen: Chosen, limit: int = 0) -> Iterator[dict[str, Any]]:
        """Chosen rows by source and position, as mappings of the table's columns; ``limit`` 0: all of them.

        CorruptFileError for a data file that cannot be read; for the log what ``ingest.feeds.delta.snapshot`` raises.
        """
        parts = list(self._keys(chosen))
        keys = [
            found.append_column("File", pa.array(np.full(len(found), number, np.int64)))
            for number, (_, found) in enumerate(parts)
        ]
        if not keys:
            return
        order = pa.concat_tables(keys).sort_by([("SourcePartition", "ascending"), ("Position", "ascending")])
        order = order.slice(0, limit) if limit else order
        for start in range(0, len(order), AT_ONCE):
            some = order.slice(start, AT_ONCE)
            yield from self._whole([path for path, _ in parts], some)

    def _keys(self, chosen: Chosen) -> Iterator[tuple[Path, pa.Table]]:
        """Chosen rows by data file: the columns of the choice, and their position ``Row`` in the file."""
        for path in self._files():
            table = self._read(path, (*_OWNER, *_CHOOSING))
            fits = self._fits(table, chosen)
            found = table.select(list(_CHOOSING)).append_column("Row", pa.array(np.arange(len(table)))).filter(fits)
            if len(found):
                yield path, found

    def _files(self) -> list[Path]:
        view = look(self.fs, self.place)
        return [Path(file.path) for file in snapshot(self.fs, self.place, view.latest, view.listing)]

    def _fits(self, table: pa.Table, chosen: Chosen) -> pa.Array:
        mask = np.ones(len(table), np.bool_)
        for name, value in zip(_OWNER, self.owner, strict=True):
            mask &= _equal(table[name], value)
        epochs, requeued = _ints(table["Epoch"]), _ints(table["RequeuedEpoch"])
        for after, upto in self.dead:
            mask &= ~_between(epochs, after, upto)
            requeued = np.where(_between(requeued, after, upto), -1, requeued)
        if chosen.reason is not None:
            mask &= _equal(table["Reason"], chosen.reason)
        if chosen.source is not None:
            pattern = re.compile(".*".join(map(re.escape, chosen.source.split("*"))), re.DOTALL)
            mask &= np.array([bool(pattern.fullmatch(text)) for text in table["SourcePartition"].to_pylist()], np.bool_)
        if chosen.epoch is not None:
            mask &= epochs == chosen.epoch
        if chosen.state != "all":
            mask &= (requeued < 0) if chosen.state == "pending" else (requeued >= 0)
        return pa.array(mask)

    def _whole(self, paths: Sequence[Path], keys: pa.Table) -> Iterator[dict[str, Any]]:
        """The whole rows of ``keys``, in their order."""
        files, places = keys["File"].to_numpy(), keys["Row"].to_numpy()
        parts, order = [], np.empty(len(keys), np.int64)
        done = 0
        for number in np.unique(files).tolist():
            mine = np.flatnonzero(files == number)
            parts.append(self._read(paths[number], None).take(pa.array(places[mine])))
            order[mine] = np.arange(done, done + len(mine))
            done += len(mine)
        for row in pa.concat_tables(parts, promote_options="default").take(pa.array(order)).to_pylist():
            if any(_is_between(row["RequeuedEpoch"], after, upto) for after, upto in self.dead):
                row |= {"RequeuedEpoch": None, "RequeuedTime": None}
            yield row

    def _read(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        try:
            data = pa.BufferReader(self.fs.read(path))
            table = pq.read_table(
                data, columns=None if columns is None else list(columns), coerce_int96_timestamp_unit="us"
            )
            times = [name for name in ("Time", "RequeuedTime") if name in table.column_names]
            for name in times:
                table = table.set_column(table.column_names.index(name), name, table[name].cast(UTC_TIME))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise CorruptFileError(
                "a data file of the quarantine cannot be read",
                where=path,
                found=str(error).partition("\n")[0],
                hint="restore it from a backup of the table; `quarantine requeue` ingests the other rows again",
            ) from error
        return table


def _last(rows: pa.Table, count: int) -> pa.Table:
    """The newest rows, the last one first."""
    order = [("Time", "descending"), ("SourcePartition", "ascending"), ("Position", "descending")]
    return rows.sort_by(order).slice(0, count)


def _equal(column: pa.ChunkedArray, value: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = pc.fill_null(pc.equal(column, value), False).to_numpy()
    return found


def _ints(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Epochs; null is -1."""
    found: np.ndarray[Any, np.dtype[np.int64]] = pc.fill_null(column, -1).to_numpy()
    return found


def _between(
    epochs: np.ndarray[Any, np.dtype[np.int64]], after: int, upto: int | None
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return (epochs > after) if upto is None else (epochs > after) & (epochs <= upto)


def _is_between(epoch: int | None, after: int, upto: int | None) -> bool:
    return epoch is not None and epoch > after and (upto is None or epoch <= upto)
