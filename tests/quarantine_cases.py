"""A stream with a real decoder and bad rows in its feed; rows are numbered, so that one lost or doubled is seen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.spec import BadRowBudget, FeedSpec, InternalRule, PartitionSpec, Refused, StreamSpec, ValueRule
from jobs.decoding import Budget, Decoder
from store.epochs.log import StreamLog
from store.epochs.publish import TABLE_SIZE
from store.epochs.state import FileId
from store.format.tablesize import decode as decode_size
from store.format.tablesize import encode as encode_size
from store.fs import Fs
from store.layout import Layout, LocationKey
from store.rejected import decode_rejected
from tests.crash.stream_kit import SCHEMA, STREAM, TABLE, LocalExecutor, Record, record, target_of
from writers.blank import WorkerMemory
from writers.commit import BatchOutcome, Park, write_batch
from writers.target import ParkedFile

DATE = "2026-11-20"
PLENTY = BadRowBudget(1000, 1.0)


def spec(budget: BadRowBudget = PLENTY, late: Refused = "quarantine") -> StreamSpec:
    """JSON lines by ``Src`` into one date."""
    partition = PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=DATE), late=late)
    return StreamSpec(STREAM, str(TABLE), FeedSpec("/feed"), partition, ignore=("Date",), bad_rows=budget)


def bad(number: int) -> Record:
    """A row whose number is no number."""
    return {**record(number), "N": f"x{number}"}


def truncate(root: Path, key: LocationKey) -> None:
    """Marks a published location as emptied for good."""
    path = Layout(root).intraday_location(TABLE, key) / TABLE_SIZE
    path.write_bytes(encode_size(replace(decode_size(path.read_bytes(), path), truncated=True)))


@dataclass(slots=True)
class Shelf:
    """A quarantine in memory: insert-only, by source partition and position."""

    rows: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    calls: int = 0

    def __call__(self, files: Sequence[ParkedFile], epoch: int) -> None:
        """Takes what is not there yet."""
        self.calls += 1
        for file in files:
            table: pa.Table = decode_rejected(file.path.read_bytes())
            for row in table.to_pylist():
                key = Path(row["SourcePartition"]).name, row["Position"]
                self.rows.setdefault(key, {**row, "Epoch": epoch})

    @property
    def places(self) -> list[tuple[str, int]]:
        """Where the rows come from."""
        return sorted(self.rows)


def take(
    fs: Fs,
    root: Path,
    log: StreamLog,
    groups: Sequence[Sequence[FileId]],
    park: Park | None,
    batch_id: int = 0,
    given: StreamSpec | None = None,
    **settings: Any,
) -> BatchOutcome:
    """One batch by the real decoder and the budget of the stream."""
    chosen = given or spec()
    target, decoder = target_of(root, log), Decoder(fs, chosen, SCHEMA)
    return write_batch(
        fs,
        log,
        target,
        WorkerMemory(),
        LocalExecutor(fs, target, groups, decoder=decoder, **settings),
        query_id="query",
        batch_id=batch_id,
        proposed=[split for group in groups for split in group],
        judge=Budget(chosen.bad_rows),
        park=park,
        decode=decoder,
    )


def again(path: Path, mtime: int) -> FileId:
    """A file as it is now, with a time in seconds."""
    os.utime(path, (mtime, mtime))
    found = path.stat()
    return FileId(str(path), found.st_size, found.st_mtime_ns)
