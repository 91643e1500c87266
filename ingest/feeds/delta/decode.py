"""The data files of a Delta table, which the log names and the Parquet decoder reads: to typed rows, or as a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.decode_guard import guarded_file
from sparkhaven.ingest.feeds.base import DATA_BYTES, DATA_FILES, Block, Clock
from sparkhaven.ingest.feeds.delta.errors import file_gone
from sparkhaven.ingest.feeds.delta.options import DeltaOptions
from sparkhaven.ingest.feeds.delta.partition_values import SPARK_ZONE, partition_values, typed_values
from sparkhaven.ingest.feeds.delta.planner import entries_of
from sparkhaven.ingest.feeds.delta.versions import AddedFile, TableView, look, snapshot
from sparkhaven.ingest.feeds.files.decode import file_blocks, file_table_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.sample import sample_of
from sparkhaven.ingest.formats.parquet.known_file import FileConstants, KnownFile
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec.stream_spec import StreamSpec
from sparkhaven.ingest.spec.table_routes import TableRoutes
from sparkhaven.ingest.table_choice import TableRows
from sparkhaven.store.delta.columns import DeltaColumns
from sparkhaven.store.delta.log import damaged
from sparkhaven.store.delta.vectors import kept_rows
from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange
from sparkhaven.store.epochs.state.position_kinds import unpacked
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import TableSchema

_MS = 1_000_000
_HELD: dict[tuple[str, str, int], list[AddedFile]] = {}
_SEEN: dict[Path, TableView] = {}


def version_blocks(
    fs: Fs,
    split: OffsetRange,
    spec: StreamSpec,
    options: DeltaOptions,
    schema: TableSchema,
    rejects: Rejects,
    clock: Clock,
) -> Iterator[Block]:
    """Typed rows of the files of a range; bad rows and counts go to ``rejects``.

    Nothing of a range may be committed before the iterator has ended. Raises what ``file_blocks`` raises, and
    PositionGapError for a file that is gone.
    """
    with guarded_file(options.path):
        plain = data_files(options)
        rejects.source.count(0)
        for file, known_file in _files(fs, split, options):
            yield from file_blocks(fs, file, spec, plain, schema, rejects, clock, known_file)
            rejects.others[DATA_FILES] += 1
            rejects.others[DATA_BYTES] += file.size


def version_table_blocks(
    fs: Fs,
    split: OffsetRange,
    tables: Mapping[int, TableRows],
    routes: TableRoutes,
    options: DeltaOptions,
    clock: Clock,
) -> Iterator[tuple[int, Block]]:
    """The same for the rows of several tables, by number. Raises what ``version_blocks`` raises."""
    with guarded_file(options.path):
        plain = data_files(options)
        for table in tables.values():
            table.rejects.source.count(0)
        for file, known_file in _files(fs, split, options):
            yield from file_table_blocks(fs, file, tables, routes, plain, clock, known_file)
            for table in tables.values():
                table.rejects.others[DATA_FILES] += 1
                table.rejects.others[DATA_BYTES] += file.size


def data_files(options: DeltaOptions) -> FilesOptions:
    missing, texts = options.missing_columns, options.binary_as_text
    return FilesOptions(options.path, "parquet", missing_columns=missing, binary_as_text=texts)


def place_name(version: int, path: str) -> str:
    """How a data file is named as the place of a row: with the version that it was read for."""
    return f"version {version}: {path}"


def path_of(name: str) -> str:
    return name.partition(": ")[2] or name


def _files(fs: Fs, split: OffsetRange, feed: DeltaOptions) -> Iterator[tuple[FileId, KnownFile]]:
    entries = entries_of(fs, feed, split.start, split.stop, partial(_snapshot, fs, feed, split.topic_id))
    columns = _columns(fs, Path(feed.path)) if entries else DeltaColumns()
    for entry in entries:
        file, version = entry.file, unpacked(entry.position).version
        yield _known(fs, file, columns, version, place_name(version, file.path))


def _columns(fs: Fs, table: Path) -> DeltaColumns:
    """The columns that the table has now; the next task of this process looks from here on."""
    seen = _SEEN.get(table)
    _SEEN.clear()
    _SEEN[table] = view = look(fs, table, seen)
    return view.columns


def _known(
    fs: Fs, file: AddedFile, columns: DeltaColumns, version: int, named: str | None = None
) -> tuple[FileId, KnownFile]:
    """A data file, with what the log says of it. Names are those that the table has now."""
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
        logical=columns.logical,
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
