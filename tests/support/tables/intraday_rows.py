"""Makes intraday tables for tests and benchmarks: committed locations from Arrow tables, without a feed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import Batch, LocationReport
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.column_files import range_stats
from tests.support.streams.stream_logs import open_stream_log
from tests.support.tables.column_files import create_column

EMPTY = FileState(0, 0)


@dataclass
class IntradayRows:
    """One stream of one table; ``clock`` is what the log believes the time to be. ``statistics``: commits have them."""

    root: Path
    schema_xml: bytes
    stream: str = "rows"
    fs: Fs = field(default_factory=Fs)
    durability: str = "fsync"
    statistics: bool = False

    def __post_init__(self) -> None:
        self.layout = Layout(self.root)
        self.fs.mkdirs(self.root)
        self.schema: TableSchema = deploy(self.fs, self.layout, self.schema_xml)
        self.table = TableName(self.schema.namespace, self.schema.name)
        self.place = StreamPlace(self.fs, self.layout, self.table, self.stream)
        self.symbols: dict[tuple[LocationKey, str], dict[str, int]] = {}
        self.batch = 0
        self.log = self.open()

    def open(self) -> StreamLog:
        """Opens the stream's log."""
        clock = lambda: 1_700_000_000.0 + self.batch  # noqa: E731
        return open_stream_log(self.place, self.schema, clock=clock, durability=self.durability)

    def commit(self, rows: Mapping[tuple[str, str], pa.Table]) -> int:
        """Appends rows to locations (internal, value) and commits them as one epoch."""
        reports = [self._append(LocationKey(*key), table) for key, table in rows.items()]
        total = sum(table.num_rows for table in rows.values())
        self.batch += 1
        batch = Batch("test", self.batch, (), tuple(reports), self.schema.version, total)
        epoch = self.log.commit(batch)
        self.log.publish(epoch)
        return epoch

    def _append(self, key: LocationKey, table: pa.Table) -> LocationReport:
        directory = self.layout.intraday_location(self.table, key)
        state = self.log.state.locations.get(key)
        files = dict(state.files) if state else {}
        before = state.rows if state else 0
        stats: dict[str, RangeStats] = {}
        if state is None:
            self.fs.mkdirs(directory)
            self.fs.write_new(directory / "table.tbl", encode_tbl(self.schema))
            self.symbols = {place: known for place, known in self.symbols.items() if place[0] != key}
        for column in self.schema.stored:
            if column.name not in table.schema.names:
                continue
            if column.files[0] not in files:
                create_column(self.fs, directory, column)
            known = self.symbols.setdefault((key, column.name), {})
            sizes = {name: files.get(name, EMPTY).size for name in column.files}
            array = table.column(column.name).combine_chunks()
            if self.statistics:
                stats[column.name] = range_stats(array, before)
            encoded = encode_column(column, array, Base(before, sizes, known))
            for text in encoded.symbols:
                known[text] = len(known)
            for name, data in encoded.parts.items():
                old = files.get(name, EMPTY)
                offset = old.size + (DATA_OFFSET if name.endswith(".dat") else 0)
                self.fs.write_at(directory / name, offset, data)
                files[name] = FileState(old.size + len(data), zlib.crc32(data, old.crc))
        base = state.epoch if state else 0
        return LocationReport(key, base, before, before + table.num_rows, files, stats)
