"""A Delta table as a Spark source: rows that *name* ranges of its files, never their content.

An offset of Spark's is a position in the table. Where to begin is asked from the commit log when the reader starts;
Spark's checkpoint proposes, the log decides.

The Parquet decoder reads the data files that the log names: to typed rows, or as a sample.

Partition values are texts of the log, of which a timestamp may have no zone. Such a text is local to the session of the
Spark that wrote it, and the log does not say which zone that had. delta-rs writes UTC. The footer of the data file
tells which of them has written it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypedDict

import pyarrow as pa

from sparkhaven.ingest.bad_rows import guarded_file
from sparkhaven.ingest.content.raw_file import (
    SMALL_BATCH,
    FileConstants,
    KnownFile,
    PlannedFile,
    no_parquet,
    planned_parquet,
)
from sparkhaven.ingest.feeds.base import DATA_BYTES, DATA_FILES, Block, Clock
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner, Planned, entries_of, share_out
from sparkhaven.ingest.feeds.delta.versions import (
    AddedFile,
    TableView,
    file_gone,
    last_version,
    look,
    require_same,
    snapshot,
)
from sparkhaven.ingest.feeds.files.decode import file_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.sample import row_bytes, sample_of
from sparkhaven.ingest.feeds.spark_planning import (
    FeedStream,
    RangeReader,
    RangeRun,
    committed_ends,
    stream_source,
)
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec import TableRoutes
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.readers.spark.source_api import DataSource, InputPartition, ReadLimit
from sparkhaven.store.delta.log import damaged
from sparkhaven.store.delta.snapshot import DeltaColumns
from sparkhaven.store.delta.vectors import kept_rows
from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange, unpacked
from sparkhaven.store.errors import FeedError, PositionGapError, carrying
from sparkhaven.store.io.fs import Fs

DeltaStream = FeedStream[DeltaOptions]


class DeltaOffset(TypedDict, total=False):
    """A position in the table; what it stands for is there for people."""

    position: int
    snapshot: int
    version: int
    file: int


class DeltaReport(DeltaOffset):
    """What waits behind a position."""

    waiting_files: int
    waiting_bytes: int


def delta_source(stream: DeltaStream) -> type[DataSource]:
    return stream_source("delta", stream, lambda of: VersionReader(of, open_planner(Fs(), of)))


def open_planner(fs: Fs, stream: DeltaStream) -> DeltaPlanner:
    end = committed_ends(fs, stream).versions
    return DeltaPlanner(fs, stream.feed, end, lambda file: _row_bytes(fs, file))


def _row_bytes(fs: Fs, file: AddedFile) -> float:
    stat = fs.stat(Path(file.path))
    return row_bytes(fs, FileId(file.path, file.size, stat.mtime_ns if stat else 0), "parquet")


class VersionReader(RangeReader):
    """Plans batches of whole files, in the order of versions."""

    def __init__(self, stream: DeltaStream, planner: DeltaPlanner) -> None:
        self.own, self.scratch = stream.feed.max_per_trigger, stream.scratch
        self.given_tasks = stream.tasks
        self._planner, self._first = planner, planner.position
        self._batch: Planned | None = None

    def initialOffset(self) -> DeltaOffset:
        return _offset(self._first)

    def latestOffset(self, start: DeltaOffset, limit: ReadLimit) -> DeltaOffset:
        with carrying():
            self._planner.look()
            batch = self._planner.plan(self.limited(limit))
            if batch is None:
                return start
            self._batch = batch
            return self.planned(start, _offset(batch.stop))

    def prepareForTriggerAvailableNow(self) -> None:
        with carrying():
            self._planner.freeze()

    def reportLatestOffset(self) -> DeltaReport:
        """What is known to wait, for the progress report; this is no offset to read from."""
        files, size = self._planner.waiting()
        return {**_offset(self._planner.position), "waiting_files": files, "waiting_bytes": size}

    def partitions(self, start: DeltaOffset, end: DeltaOffset) -> Sequence[InputPartition]:
        if start == end:
            return []
        batch = self._batch
        if batch is None or end["position"] != batch.stop:
            with carrying():
                raise PositionGapError(
                    "Spark asks for a batch that was not planned",
                    where=f"{start} to {end}",
                    expected="the batch that was planned last",
                    hint="start the stream again. Each start renews Spark's checkpoint, and the commit log decides"
                    " what is read",
                )
        waiting, _ = self._planner.waiting()
        ranges = share_out(batch, self._planner.table_id, self.tasks_now())
        large = batch.bytes > SMALL_BATCH
        return [RangeRun((offset_range,), task, waiting, large) for task, offset_range in enumerate(ranges)]


def _offset(position: int) -> DeltaOffset:
    parts = unpacked(position)
    if parts.snapshot:
        return {"position": position, "snapshot": parts.version, "file": parts.file}
    return {"position": position, "version": parts.version, "file": parts.file}


_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_DECIMAL = re.compile(r"decimal\(([1-9]|[12]\d|3[0-8]), ?(\d{1,2})\)")
_TYPES = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
          "double": pa.float64(), "binary": pa.binary()}  # fmt: skip
_IN_UTC = ("delta-rs ", "parquet-rs ")
SPARK_ZONE = "that of the Spark session that wrote the table"


def partition_values(
    fs: Fs, file: FileId, values: Mapping[str, str | None], types: Mapping[str, str | None]
) -> Mapping[str, str | None]:
    """The values of a data file by column; ``types`` are those of the columns of its table.

    Timestamps without a zone get ``Z`` where they are in UTC. FeedError for a damaged file.
    """
    local = [name for name, text in values.items() if text is not None and _LOCAL.fullmatch(text)]
    local = [name for name in local if types.get(name) == "timestamp"]
    if not local or not _writer(fs, file).startswith(_IN_UTC):
        return values
    return {name: f"{text}Z" if name in local else text for name, text in values.items()}


def typed_values(values: Mapping[str, str | None], types: Mapping[str, str | None]) -> dict[str, pa.Scalar]:
    """The values of columns that the table declares as numbers or bytes, as such; without those that are none.

    The bytes of a text are those of UTF-8, as Spark reads and writes them.
    """
    typed: dict[str, pa.Scalar] = {}
    for name, text in values.items():
        kind = _type_of(types.get(name))
        if text is not None and kind is not None:
            with suppress(pa.ArrowInvalid):  # the text says in a bad row what is wrong
                typed[name] = pa.scalar(text).cast(kind)
    return typed


def _type_of(declared: str | None) -> pa.DataType | None:
    if declared is not None and (digits := _DECIMAL.fullmatch(declared)):
        return pa.decimal128(int(digits[1]), int(digits[2]))
    return _TYPES.get(declared or "")


def _writer(fs: Fs, file: FileId) -> str:
    try:
        return planned_parquet(PlannedFile(fs, file), utc96=True).writer
    except (pa.ArrowException, OSError) as error:
        raise no_parquet(file.path, error, "restore the data file. Nothing of it was committed") from error


_MS = 1_000_000
_HELD: dict[tuple[str, str, int], list[AddedFile]] = {}
_SEEN: dict[Path, TableView] = {}


def version_blocks(
    fs: Fs,
    split: OffsetRange,
    tables: Mapping[int, TableRows],
    routes: TableRoutes | None,
    options: DeltaOptions,
    clock: Clock,
) -> Iterator[tuple[int, Block]]:
    """Typed rows of the files of a range, each with the number of its table; bad rows and counts go to its rejects.

    Nothing of a range may be committed before the iterator has ended. Raises what ``file_blocks`` raises, and
    PositionGapError for a file that is gone.
    """
    plain = data_files(options)
    with guarded_file(options.path):
        for table in tables.values():
            table.rejects.source.count(0)
        require_same(fs, Path(options.path), unpacked(split.start), split.after)
        last = last_version(fs, Path(options.path), unpacked(split.stop))
        wanted = {target.source for table in tables.values() for target in resolve_targets(table.spec, table.schema)}
        wanted |= set() if routes is None else {routes.column or ""}
        for file, known_file in _files(fs, split, options, wanted):
            yield from file_blocks(PlannedFile(fs, file), tables, routes, plain, clock, known_file)
            for table in tables.values():
                table.rejects.others[DATA_FILES] += 1
                table.rejects.others[DATA_BYTES] += file.size
        for table in tables.values():
            table.rejects.last = last


def data_files(options: DeltaOptions) -> FilesOptions:
    missing, texts = options.missing_columns, options.binary_as_text
    return FilesOptions(options.path, "parquet", missing_columns=missing, binary_as_text=texts)


def place_name(version: int, path: str) -> str:
    """How a data file is named as the place of a row: with the version that it was read for."""
    return f"version {version}: {path}"


def path_of(name: str) -> str:
    return name.partition(": ")[2] or name


def _files(
    fs: Fs, split: OffsetRange, feed: DeltaOptions, wanted: Collection[str]
) -> Iterator[tuple[FileId, KnownFile]]:
    entries = entries_of(fs, feed, split.start, split.stop, partial(_snapshot, fs, feed, split.topic_id))
    columns = _columns(fs, Path(feed.path)) if entries else DeltaColumns()
    for entry in entries:
        file, version = entry.file, unpacked(entry.position).version
        yield _known(fs, file, columns, version, place_name(version, file.path), wanted)


def _columns(fs: Fs, table: Path) -> DeltaColumns:
    """The columns that the table has now; the next task of this process looks from here on."""
    seen = _SEEN.get(table)
    _SEEN.clear()
    _SEEN[table] = view = look(fs, table, seen)
    return view.columns


def _known(
    fs: Fs,
    file: AddedFile,
    columns: DeltaColumns,
    version: int,
    named: str | None = None,
    wanted: Collection[str] = (),
) -> tuple[FileId, KnownFile]:
    """A data file, with what the log says of it. Names are those that the table has now; ``wanted``: by columns."""
    stat = fs.stat(Path(file.path))
    if stat is None:
        raise file_gone(Path(file.path), version)
    if stat.size != file.size:
        raise damaged(Path(file.path), f"{stat.size} bytes where version {version} says {file.size}")
    data, constants = FileId(file.path, file.size, stat.mtime_ns), FileConstants()
    if file.values:
        values = partition_values(fs, data, columns.names_of(dict(file.values)), columns.types)
        constants = FileConstants(values, typed_values(values, columns.types), SPARK_ZONE)
    cut = file.vector is not None or file.before is not None
    return data, KnownFile(
        named,
        constants,
        time_ns=file.time_ms * _MS,
        utc96=True,
        declared=frozenset(columns.types),
        logical=partial(columns.logical, given=frozenset(constants.texts), wanted=wanted),
        rows=file.rows,
        kept=partial(kept_rows, fs, vector=file.vector, before=file.before) if cut else None,
    )


def _snapshot(fs: Fs, feed: DeltaOptions, table_id: str, version: int) -> list[AddedFile]:
    """The files of a snapshot, held for the next task of this process: many tasks read parts of the same one."""
    key = feed.path, table_id, version
    if key not in _HELD:
        _HELD.clear()
        _HELD[key] = snapshot(fs, Path(feed.path), version)
    return _HELD[key]


def sample_table(fs: Fs, options: DeltaOptions, rows: int) -> Sample:
    """At most so many rows of the newest version, about as many of each of some data files."""
    table = Path(options.path)
    view = look(fs, table)
    latest = view.latest
    files = [_known(fs, added, view.columns, latest) for added in snapshot(fs, table, latest)]
    if not files:
        raise FeedError(
            "the Delta table has no rows to infer from",
            where=table,
            expected="at least one data file",
            found=f"none at version {latest}",
            hint="wait for rows, or write the schema by the columns of the table",
        )
    return sample_of(fs, files, data_files(options), rows)
