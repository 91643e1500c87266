"""Small tables for tests: rows in, files and commits out, by the codecs and the commit log alone."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.epochs.files.published_size import physical_size
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport, OffsetRange
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import MergeInput, MergeOutput, MergeRecord, store_record
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import Column, Storage
from tests.support.disks.model_fs import QuickFs
from tests.support.streams.stream_logs import open_stream_log
from tests.support.tables.column_files import create_column

SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Size" dataType="int"/>
  <Column name="Px" dataType="double"/>
  <Column name="At" dataType="Instant"/>
  <Column name="Live" dataType="Boolean"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""
Rows = Mapping[str, list[Any]]


def naive_stats(array: pa.Array, start: int) -> RangeStats:
    """Statistics by a plain loop; texts above 64 characters are no bounds."""
    plain = array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array
    values = [value for value in plain.to_pylist() if value is not None]
    numbers = [value for value in values if value == value]  # a NaN is not equal to itself
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    if any(isinstance(bound, str) and len(bound) > 64 for bound in (low, high)):
        low = high = None
    return RangeStats(start, start + len(array), array.null_count, len(values) - len(numbers), low, high)


class SmallTable:
    """A table with one or more streams in a fresh root; ``batches``: those that another one has committed before."""

    def __init__(self, root: Path, schema: str = SCHEMA, *, fs: Fs | None = None, batches: int = 0) -> None:
        self.fs, self.root, self.layout = fs or QuickFs(), root, Layout(root)
        self.schema = deploy(self.fs, self.layout, schema.encode())
        self.table = TableName(self.schema.namespace, self.schema.name)
        self.place = TablePlace(self.fs, self.layout, self.table)
        self.now = 1_800_000_000.0
        self.logs: dict[str, StreamLog] = {}
        self._symbols: dict[tuple[LocationKey, str], dict[str, int]] = {}
        self._batches = batches

    def log(self, stream: str = "s", **options: Any) -> StreamLog:
        """The open log of a stream."""
        if stream not in self.logs:
            self.logs[stream] = open_stream_log(
                self.place.of_stream(stream), self.schema, clock=lambda: self.now, **options
            )
        return self.logs[stream]

    def append(self, internal: str, value: str, rows: Rows, *, stream: str = "s") -> LocationReport:
        """Writes rows behind what is committed, and nothing else; missing columns are null."""
        key = LocationKey(internal, value)
        directory = self.layout.intraday_location(self.table, key)
        base = self.log(stream).state.locations.get(key)
        count = len(next(iter(rows.values())))
        start = base.rows if base else 0
        files: dict[str, FileState] = dict(base.files) if base else {}
        stats: dict[str, RangeStats] = {}
        self.fs.mkdirs(directory)
        self.fs.write_new(directory / "table.tbl", encode_tbl(self.schema))
        for column in self.schema.stored:
            array = pa.array(rows.get(column.name, [None] * count), column.type.arrow)
            stats[column.name] = naive_stats(array, start)
            if not base:
                create_column(self.fs, directory, column)
            self._append_column(directory, key, column, array, start, files)
        return LocationReport(key, base.epoch if base else 0, start, start + count, files, stats)

    def _append_column(
        self,
        directory: Path,
        key: LocationKey,
        column: Column,
        array: pa.Array,
        start: int,
        files: dict[str, FileState],
    ) -> None:
        known = self._symbols.setdefault((key, column.name), {})
        sizes = {name: files[name].size for name in column.files if name in files}
        encoded = encode_column(column, array, Base(start, sizes, known))
        for name, data in encoded.parts.items():
            old = files.get(name, FileState(0, 0))
            self.fs.write_at(directory / name, physical_size(name, old.size), data)
            files[name] = FileState(old.size + len(data), zlib.crc32(data, old.crc))
        if column.storage is Storage.SYMBOL:
            known.update((text, len(known)) for text in encoded.symbols)

    def commit(
        self,
        *reports: LocationReport,
        stream: str = "s",
        publish: bool = True,
        ranges: tuple[OffsetRange, ...] = (),
        gaps: tuple[OffsetRange, ...] = (),
    ) -> int:
        """Makes appended rows an epoch: of one more file, or of ``ranges``."""
        self._batches += 1
        self.now += 60
        rows = sum(report.rows - report.base_rows for report in reports)
        file = FileId(f"/feed/{self._batches}.json", 1, int(self.now * 1e9))
        files = () if ranges else (file,)
        batch = Batch("q", self._batches, files, reports, self.schema.version, rows, ranges=ranges, gaps=gaps)
        epoch = self.log(stream).commit(batch)
        if publish:
            self.log(stream).publish()
        return epoch

    def add(self, internal: str, value: str, rows: Rows, *, stream: str = "s") -> int:
        """Append and commit."""
        return self.commit(self.append(internal, value, rows, stream=stream), stream=stream)

    def location(self, internal: str, value: str) -> Path:
        """Directory of an intraday location."""
        return self.layout.intraday_location(self.table, LocationKey(internal, value))

    def merge_by_hand(self, value: str, generation: int = 0, *, stream: str = "s") -> MergeRecord:
        """Copies each intraday location of a date into a historical one and records that, as a merge would."""
        state = self.log(stream).state
        taken: list[MergeInput] = []
        outputs: list[MergeOutput] = []
        for key in sorted(key for key in state.locations if key.value == value):
            at = state.locations[key]
            internal = f"{len(outputs)}.g{generation}" if generation else str(len(outputs))
            target = self.layout.history_location(self.table, LocationKey(internal, value))
            self.fs.mkdirs(target)
            for name in self.fs.names(self.location(key.internal, value)):
                self.fs.write_new(target / name, self.fs.read(self.location(key.internal, value) / name))
            taken.append(MergeInput(stream, key.internal, at.since, at.epoch, at.rows))
            outputs.append(MergeOutput(internal, at.rows, files=dict(at.files), stats=dict(at.stats)))
        record = MergeRecord(str(self.table), value, generation, MergePhase.RECORD, tuple(taken), tuple(outputs))
        store_record(TablePlace(self.fs, self.layout, self.table), record)
        return record
