"""The smallest writer that follows the append protocol: two columns, rows are integers, for tests of the log alone.

Column ``N`` (long) holds the number, column ``T`` (text as blobs) its decimal text, so a reader can tell rows whose
columns do not belong together.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparkhaven.store.epochs.files.lock import commits_held, named_generation
from sparkhaven.store.epochs.files.published_size import OWNER, owner_mark, publish_location
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import Batch, FileId, LocationReport, LocationState, OffsetRange
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from tests.support.streams.stream_logs import open_stream_log

TABLE = TableName("Test", "Rows")
STREAM = "feed"
COLUMNS = (
    Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0),
    Column("N", data_type("long"), Kind.NORMAL, Storage.FIXED, 1),
    Column("T", data_type("String"), Kind.NORMAL, Storage.BLOB, 2, "UTF_8"),
)
SCHEMA = TableSchema("Test", "Rows", COLUMNS)
FILES = ("N.dat", "T.bytes", "T.dat")
PREFIX = 4096


def open_log(fs: Fs, root: Path, **settings: Any) -> StreamLog:
    """The test stream, with a clock that stands still."""
    return open_stream_log(StreamPlace(fs, Layout(root), TABLE, STREAM), settings.pop("schema", SCHEMA), **settings)


def log_path(root: Path) -> Path:
    """Where the log of the test stream is."""
    return Layout(root).stream_log(TABLE, STREAM)


def location_path(root: Path, key: LocationKey) -> Path:
    """Where a location of the test table is."""
    return Layout(root).intraday_location(TABLE, key)


def append(
    fs: Fs, root: Path, base: LocationState | None, key: LocationKey, values: Sequence[int], *, sync: bool = True
) -> LocationReport:
    """Cuts the tail, appends rows, syncs files and then directories, reports."""
    directory = location_path(root, key)
    fs.mkdirs(directory)
    start = base.rows if base else 0
    committed = base.files if base else {}
    texts = [str(value).encode() for value in values]
    first_end = committed["T.bytes"].size if base else 0
    ends = np.cumsum([len(text) for text in texts], dtype="<i8") + first_end
    tails = {
        "N.dat": np.asarray(values, dtype="<i8").tobytes(),
        "T.bytes": b"".join(texts),
        "T.dat": ends.astype("<i8").tobytes(),
    }
    files: dict[str, FileState] = {}
    for name in ("T.bytes", "T.dat", "N.dat"):
        path, before = directory / name, committed.get(name, FileState(0, 0))
        prefix = PREFIX if name.endswith(".dat") else 0
        if base is None:
            column = next(c for c in COLUMNS if c.name == name[0])
            fs.write_new(path, encode_prefix(column) if prefix else b"")
        found = fs.stat(path)
        assert found is not None
        if found.size > prefix + before.size:
            fs.truncate(path, prefix + before.size)
        fs.write_at(path, prefix + before.size, tails[name])
        files[name] = FileState(before.size + len(tails[name]), zlib.crc32(tails[name], before.crc))
    if base is None:
        fs.write_new(
            directory / OWNER, owner_mark(STREAM, named_generation(fs, Layout(root).stream_lock(TABLE, STREAM)))
        )
        fs.write_new(directory / "table.tbl", b"definition")
    if sync:
        fs.sync([directory / name for name in FILES])
        fs.sync_dirs([directory, directory.parent, directory.parent.parent, directory.parent.parent.parent])
        if base is None:
            fs.sync([directory / "table.tbl", directory / OWNER])
    stop = start + len(values)
    stats = {"N": RangeStats(start, stop, 0, 0, min(values), max(values))} if values else {}
    return LocationReport(key, base.epoch if base else 0, start, stop, files, stats)


def remove(fs: Fs, root: Path, *removals: Removal) -> None:
    """Records removals together and publishes what they emptied; who may remove what is not asked."""
    layout = Layout(root)
    with commits_held(fs, layout.stream_removals(TABLE, STREAM)) as commit_lock:
        write_removals(StreamPlace(fs, layout, TABLE, STREAM), list(removals), commit_lock=commit_lock)
        state = load_stream(StreamPlace(fs, layout, TABLE, STREAM))
        for removal in removals:
            location = state.locations.get(removal.key)
            if location is not None and location.truncated:
                publish_location(StreamPlace(fs, layout, TABLE, STREAM), location)


def batch_of(
    reports: Sequence[LocationReport],
    number: int,
    files: Sequence[FileId] | None = None,
    ranges: Sequence[OffsetRange] = (),
    gaps: Sequence[OffsetRange] = (),
) -> Batch:
    """A batch of files, default: the one file ``/feed/<number>``, and of ``ranges``."""
    taken = tuple(files) if files is not None else (FileId(f"/feed/{number}", number, number * 10**9),)
    rows = sum(report.rows - report.base_rows for report in reports)
    return Batch("query", number, taken, tuple(reports), 1, rows, ranges=tuple(ranges), gaps=tuple(gaps))


def write_batch(
    fs: Fs,
    root: Path,
    log: StreamLog,
    rows: Mapping[LocationKey, Sequence[int]],
    number: int,
    *,
    sync: bool = True,
    ranges: Sequence[OffsetRange] = (),
    gaps: Sequence[OffsetRange] = (),
) -> int:
    """Appends, commits and publishes one batch; returns its epoch."""
    log.refresh()
    reports = [append(fs, root, log.state.locations.get(key), key, values, sync=sync) for key, values in rows.items()]
    epoch = log.commit(batch_of(reports, number, ranges=ranges, gaps=gaps))
    log.publish(epoch)
    return epoch


def read_location(fs: Fs, root: Path, location: LocationState) -> list[int]:
    """The committed rows of a location, by numpy alone; fails where columns or checksums do not agree."""
    directory = location_path(root, location.key)
    if location.rows == 0:
        return []
    data = {
        name: fs.read_range(directory / name, PREFIX if name.endswith(".dat") else 0, state.size)
        for name, state in location.files.items()
    }
    for name, state in location.files.items():
        assert zlib.crc32(data[name]) == state.crc, f"{directory / name}: checksum"
    numbers = np.frombuffer(data["N.dat"], dtype="<i8").tolist()
    ends = np.frombuffer(data["T.dat"], dtype="<i8").tolist()
    texts = [data["T.bytes"][a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    assert len(numbers) == location.rows
    assert [str(number) for number in numbers] == texts
    return [int(number) for number in numbers]


def read_state(fs: Fs, root: Path, state: StreamState) -> dict[LocationKey, list[int]]:
    """Rows of every location of a state."""
    return {key: read_location(fs, root, location) for key, location in state.locations.items()}
