"""A stream from files to locations without Spark: feed, decoder, tasks in any order, and an independent reading.

A feed file has one JSON object a line with the columns of ``SCHEMA`` and where the row belongs (``Src``, ``Date``).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.epochs.files.published_size import OWNER, physical_size
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId, LocationState, OffsetRange, Split
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.datatypes import INT_NULL, data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.batch.scratch import make_scratch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task import Decode, SplitNotes, StreamTarget
from tests.support.streams.stream_logs import open_stream_log

TABLE = TableName("Test", "Event")
STREAM = "feed"
COLUMNS = (
    Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0, "UTF_8"),
    Column("Src", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8"),
    Column("N", data_type("long"), Kind.NORMAL, Storage.FIXED, 2),
    Column("Sym", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 3, "UTF_8"),
    Column("Note", data_type("String"), Kind.NORMAL, Storage.BLOB, 4, "UTF_8"),
)
SCHEMA = TableSchema("Test", "Event", COLUMNS)
Record = dict[str, Any]
MESSAGES_0 = 30  # of partition 0 of the topic


def record(number: int, source: str = "a", date: str = "2026-11-20") -> Record:
    """A row whose other columns follow from its number, so that mixed-up columns show."""
    return {
        "Src": source,
        "Date": date,
        "N": number,
        "Sym": None if number % 7 == 3 else f"s{number % 5}",
        "Note": None if number % 4 == 1 else "é" * (number % 3) + str(number),
    }


def put_file(feed: Path, name: str, rows: Sequence[Record], mtime: int) -> FileId:
    """A complete feed file; ``mtime`` in seconds since the epoch."""
    feed.mkdir(exist_ok=True)
    path = feed / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.utime(path, ns=(mtime * 10**9, mtime * 10**9))
    found = path.stat()
    return FileId(str(path), found.st_size, found.st_mtime_ns)


def message(partition: int, offset: int) -> Record:
    """What the topic of these tests holds at an offset: partition 1 goes on with the numbers of partition 0."""
    return record(MESSAGES_0 * partition + offset, "ab"[offset % 2])


def decode(split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
    """Reads a feed file, or a range of the topic, a few rows at a time. A row without a number is bad."""
    rows = []
    if isinstance(split, OffsetRange):
        notes.source.count(split.stop - split.start)
        yield from _batches([message(split.partition, offset) for offset in range(split.start, split.stop)])
        return
    lines = Path(split.path).read_text(encoding="utf-8").splitlines()
    notes.source.count(len(lines))
    for number, line in enumerate(lines, 1):
        row = json.loads(line)
        if row["N"] is None:
            notes.reject([f"{split.path}:{number} N is missing"], 1)
        else:
            rows.append(row)
    yield from _batches(rows)


def _batches(rows: Sequence[Record]) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
    for start in range(0, len(rows), 3):
        some = rows[start : start + 3]
        for key in dict.fromkeys((row["Src"], row["Date"]) for row in some):
            mine = [row for row in some if (row["Src"], row["Date"]) == key]
            columns = {
                column.name: pa.array([row[column.name] for row in mine], column.type.arrow) for column in stored()
            }
            yield LocationKey(*key), pa.RecordBatch.from_pydict(columns)


def file_sizes_are_exact(root: Path, state: StreamState) -> bool:
    """Whether every column file ends where its committed bytes end: no tail is left."""
    return all(
        (Layout(root).intraday_location(TABLE, key) / name).stat().st_size == physical_size(name, file.size)
        for key, location in state.locations.items()
        for name, file in location.files.items()
    )


def stored() -> tuple[Column, ...]:
    """The columns that have files."""
    return SCHEMA.stored


def place_in(root: Path, fs: Fs) -> StreamPlace:
    """The place of the stream below a root."""
    return StreamPlace(fs, Layout(root), TABLE, STREAM)


def open_log(fs: Fs, root: Path, *, stream: str = STREAM, **settings: Any) -> StreamLog:
    """The stream, with a clock that stands still."""
    return open_stream_log(StreamPlace(fs, Layout(root), TABLE, stream), settings.pop("schema", SCHEMA), **settings)


def target_of(root: Path, log: StreamLog) -> StreamTarget:
    """What tasks of the open generation need to know."""
    return StreamTarget(Layout(root), TABLE, log.state.stream, SCHEMA, log.state.generation)


@dataclass(slots=True)
class LocalExecutor:
    """Runs tasks in this process: ``groups`` of splits, in ``order`` (indices), each ``attempts`` times."""

    fs: Fs
    target: StreamTarget
    groups: Sequence[Sequence[Split]]
    order: Sequence[int] | None = None
    attempts: int = 1
    memories: Sequence[WorkerCache] | None = None
    max_buffered: int = 1 << 20
    decoder: Decode = decode

    def __call__(self, batch: str, instead: Mapping[Split, Split | None]) -> list[TaskResult]:
        order = range(len(self.groups)) if self.order is None else self.order
        return [self.run(index, batch, instead) for index in order]

    def run(self, index: int, batch: str, instead: Mapping[Split, Split | None]) -> TaskResult:
        """All attempts of one task; the last one counts."""
        for attempt in range(self.attempts):
            task = Task(index, attempt, batch, self.groups[index], len(self.groups) == 1, instead)
            memory = self.memories[index] if self.memories else WorkerCache()
            result = run_task(self.fs, memory, self.target, self.decoder, task, max_buffered=self.max_buffered)
        return result


def run_alone(
    fs: Fs, target: StreamTarget, batch: str, files: Sequence[FileId], *, attempt: int = 0, decoder: Decode = decode
) -> TaskResult:
    """One attempt of the only task of a running batch."""
    make_scratch(fs, target.scratch(batch))
    return run_task(fs, WorkerCache(), target, decoder, Task(0, attempt, batch, files, True))


def ingest(
    fs: Fs, root: Path, log: StreamLog, groups: Sequence[Sequence[Split]], batch_id: int = 0, **settings: Any
) -> BatchOutcome:
    """One batch, checked against the log first, as the first one after a start."""
    target = target_of(root, log)
    execute = LocalExecutor(fs, target, groups, **settings)
    proposed = [split for group in groups for split in group]
    return write_batch(
        fs, log, target, WorkerCache(), BatchRequest(execute, query_id="query", batch_id=batch_id, proposed=proposed)
    )


# --- reading -----------------------------------------------------------------------------------------------


def read_location(root: Path, location: LocationState) -> list[Record]:
    """Committed rows of a location by numpy alone; fails where lengths, checksums or ids are not right."""
    directory = Layout(root).intraday_location(TABLE, location.key)
    data = {}
    for name, state in location.files.items():
        content = (directory / name).read_bytes()
        start = 4096 if name.endswith(".dat") else 0
        assert len(content) >= start + state.size, f"{directory / name}: {len(content)} bytes"
        data[name] = content[start : start + state.size]
        assert zlib.crc32(data[name]) == state.crc, f"{directory / name}: checksum"
    numbers = np.frombuffer(data["N.dat"], "<i8").tolist()
    columns = {"N": numbers, "Note": _values(data["Note.dat"], data["Note.bytes"])}
    for name in ("Src", "Sym"):
        symbols = _values(data[f"{name}.sym"], data[f"{name}.sym.bytes"])
        assert len(set(symbols)) == len(symbols), f"{directory}: symbols of {name} are not unique: {symbols}"
        ids = np.frombuffer(data[f"{name}.dat"], "<i4").tolist()
        columns[name] = [None if i == INT_NULL else symbols[i] for i in ids]
    assert {len(values) for values in columns.values()} == {location.rows}, {n: len(v) for n, v in columns.items()}
    return [{name: values[row] for name, values in columns.items()} for row in range(location.rows)]


def _values(ends: bytes, data: bytes) -> list[str | None]:
    stops = np.frombuffer(ends, "<i8").tolist()
    parts = [data[a:b] for a, b in zip([0, *stops[:-1]], stops, strict=True)]
    return [None if not part else "" if part == b"\0" else part.decode() for part in parts]


def read_all(root: Path, state: StreamState) -> dict[LocationKey, list[Record]]:
    """Rows of every location; each must be in the one that it routes to, with columns that belong together."""
    found = {key: read_location(root, location) for key, location in state.locations.items()}
    for key, rows in found.items():
        for row in rows:
            assert {**row, "Date": key.value} == record(row["N"], key.internal, key.value), (key, row)
    return found


def numbers(root: Path, state: StreamState) -> list[int]:
    """The numbers of all rows, sorted: each row of the input once."""
    return sorted(row["N"] for rows in read_all(root, state).values() for row in rows)


def scratch_left(root: Path) -> list[str]:
    """What batches left in the scratch directory of the stream; FileNotFoundError if none ever had one there."""
    return sorted(path.name for path in Layout(root).scratch(TABLE, STREAM).iterdir())


def tree_bytes(root: Path) -> dict[str, bytes]:
    """Every column file and definition of the table, by path; not the mark of an owner, which says its generation."""
    top = Layout(root).intraday(TABLE)
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".streams" not in path.parts and path.name not in ("table.size", OWNER)
    }
