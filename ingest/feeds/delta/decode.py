"""A range of a Delta table's files to routed batches: the log says which files, the Parquet decoder reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ingest.bad_rows import Rejects
from ingest.feeds.delta.errors import damaged, file_gone
from ingest.feeds.delta.log import Added
from ingest.feeds.delta.planner import entries_of
from ingest.feeds.delta.snapshot import look, snapshot
from ingest.feeds.files.decode import Known, decode_split, late_rows
from ingest.options.delta import DeltaFeed
from ingest.router import Routed
from ingest.spec import StreamSpec
from store.epochs.state.values import FileId, OffsetRange
from store.epochs.state.versions import unpacked
from store.io.fs import Fs
from store.layout import LocationKey
from store.types.model import TableSchema

DATA_FILES, DATA_BYTES = "data_files", "data_bytes"  # counts of what was read, since a range does not tell it
_MS = 1_000_000
_HELD: dict[tuple[str, str, int], list[Added]] = {}


def decode_versions(
    fs: Fs,
    split: OffsetRange,
    spec: StreamSpec,
    feed: DeltaFeed,
    schema: TableSchema,
    rejects: Rejects,
    *,
    clock: Callable[[], float] = time.time,
) -> Iterator[Routed]:
    """Routed batches of the files of a range; bad rows and counts go to ``rejects``.

    A caller must not commit anything of a range before the iterator has ended. Raises what ``decode_split`` raises, and
    PositionGapError for a file that is gone.
    """
    for file, known in _files(fs, split, feed):
        yield from decode_split(fs, file, spec, schema, rejects, clock=clock, known=known)
        rejects.others[DATA_FILES] += 1
        rejects.others[DATA_BYTES] += file.size


def late_in_versions(
    fs: Fs,
    split: OffsetRange,
    spec: StreamSpec,
    feed: DeltaFeed,
    schema: TableSchema,
    keys: frozenset[LocationKey],
    rejects: Rejects,
    *,
    clock: Callable[[], float] = time.time,
) -> int:
    """Reads a range again to reject the rows that go to ``keys``, and no others; returns how many they are."""
    files = _files(fs, split, feed)
    return sum(late_rows(fs, file, spec, schema, keys, rejects, clock=clock, known=known) for file, known in files)


def place_name(version: int, path: str) -> str:
    """How a data file is named as the place of a row: with the version that it was read for."""
    return f"version {version}: {path}"


def path_of(place: str) -> str:
    """The path in such a name."""
    return place.partition(": ")[2] or place


def _files(fs: Fs, split: OffsetRange, feed: DeltaFeed) -> Iterator[tuple[FileId, Known]]:
    entries = entries_of(fs, feed, split.start, split.stop, partial(_snapshot, fs, feed, split.topic_id))
    declared = partial(_declared, fs, feed)  # by the table; files from before a column was added lack it
    for entry in entries:
        file, version = entry.file, unpacked(entry.position).version
        found = fs.stat(Path(file.path))
        if found is None:
            raise file_gone(Path(file.path), version)
        if found.size != file.size:
            raise damaged(Path(file.path), f"{found.size} bytes where version {version} says {file.size}")
        known = Known(
            place_name(version, file.path), dict(file.values), file.time_ms * _MS, utc96=True, declared=declared
        )
        yield FileId(file.path, file.size, found.mtime_ns), known


def _declared(fs: Fs, feed: DeltaFeed) -> frozenset[str]:
    return look(fs, Path(feed.path)).metadata.columns


def _snapshot(fs: Fs, feed: DeltaFeed, table_id: str, version: int) -> list[Added]:
    """The files of a snapshot, held for the next task of this process: many tasks read parts of the same one."""
    key = feed.path, table_id, version
    if key not in _HELD:
        _HELD.clear()
        _HELD[key] = snapshot(fs, Path(feed.path), version)
    return _HELD[key]
