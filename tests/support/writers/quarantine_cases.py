"""A stream with a real decoder and bad rows in its feed; rows are numbered, so that one lost or doubled is seen."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import BadRowBudget, InternalRule, PartitionSpec, Refused, StreamSpec, ValueRule
from sparkhaven.jobs.operations.quarantine import Requeued, RequeueWriter
from sparkhaven.jobs.streams.decoding import Decoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.format.table.table_size import decode as decode_size
from sparkhaven.store.format.table.table_size import encode as encode_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.rejected_rows import REJECTED, decode_rejected, encode_rejected
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import AddToQuarantine, BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.quarantine.changes import follow_log, leftovers
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import THRESHOLDS, Quarantine, Thresholds
from sparkhaven.writers.task import RejectedFile
from tests.support.streams.stream_kit import SCHEMA, STREAM, TABLE, LocalExecutor, Record, open_log, record, target_of

DATE = "2026-11-20"
PLENTY = BadRowBudget(1000, 1.0)


def spec(budget: BadRowBudget = PLENTY, late: Refused = "quarantine") -> StreamSpec:
    """JSON lines by ``Src`` into one date."""
    partition = PartitionSpec(InternalRule("column", "Src"), ValueRule(fixed=DATE), late=late)
    return StreamSpec(STREAM, str(TABLE), FilesOptions("/feed"), partition, ignore=("Date",), bad_rows=budget)


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

    def __call__(self, files: Sequence[RejectedFile], epoch: int) -> None:
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


def quarantine_at(fs: Fs, root: Path, stream: str = STREAM, thresholds: Thresholds = THRESHOLDS) -> Quarantine:
    """The quarantine of a stream at the default place of the test stream."""
    layout = Layout(root)
    place = StreamPlace(fs, layout, TABLE, stream)
    return Quarantine(place, layout.quarantine(STREAM), clock=lambda: 0.0, thresholds=thresholds)


def pending(quarantine: Quarantine) -> pa.Table:
    """Rows that were not sent again, sorted."""
    return pa.Table.from_pylist([*quarantine.rows(Chosen(state="pending"))], REJECTED)


def marks(quarantine: Quarantine) -> list[tuple[int, int | None]]:
    """Epoch and epoch of the requeue of every row."""
    return [(row["Epoch"], row["RequeuedEpoch"]) for row in quarantine.rows(Chosen())]


def rejected_at(path: Path, *times: int | None) -> RejectedFile:
    """Rejected rows at one position, one for each time of its source."""
    row = {**dict.fromkeys(REJECTED.names), "SourcePartition": "t/0", "Position": 5, "Reason": "r", "PayloadBytes": 0}
    given = [{**row, "SourceTime": at} for at in times]
    path.write_bytes(encode_rejected(pa.Table.from_pylist(given, REJECTED)))
    return RejectedFile(path, len(times))


def restart(fs: Fs, root: Path, quarantine: Quarantine) -> StreamLog:
    """Opens the stream and lets the quarantine follow, as a start of a stream does."""
    log = open_log(fs, root)
    follow_log(TablePlace(fs, Layout(root), TABLE), log.state)
    committed, others = leftovers(TablePlace(fs, Layout(root), TABLE), log.state)
    for requeue in others:
        fs.unlink(requeue.path)
    quarantine.settle(committed)
    return log


def mended(rows: pa.Table) -> pa.Table:
    """The rows of ``bad`` as those of ``record``."""
    texts = [json.dumps(record(int(json.loads(text)["N"].strip("x")))) for text in rows["Payload"].to_pylist()]
    at = rows.schema.get_field_index("Payload")
    return rows.set_column(at, REJECTED.field("Payload"), pa.array([text.encode() for text in texts], pa.binary()))


def send(fs: Fs, root: Path, log: StreamLog, quarantine: Quarantine, rows: pa.Table) -> Requeued:
    """Sends rows again by the settings of the stream."""
    done = Requeued()
    RequeueWriter(fs, log, target_of(root, log), spec(), quarantine, clock=lambda: 0.0).write(rows, done)
    return done


def take(
    fs: Fs,
    root: Path,
    log: StreamLog,
    groups: Sequence[Sequence[FileId]],
    quarantine: AddToQuarantine | None,
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
        WorkerCache(),
        BatchRequest(
            LocalExecutor(fs, target, groups, decoder=decoder, **settings),
            query_id="query",
            batch_id=batch_id,
            proposed=[split for group in groups for split in group],
            check_budget=ErrorBudget(chosen.bad_rows),
            quarantine=quarantine,
            decode=decoder,
        ),
    )


def again(path: Path, mtime: int) -> FileId:
    """A file as it is now, with a time in seconds."""
    os.utime(path, (mtime, mtime))
    found = path.stat()
    return FileId(str(path), found.st_size, found.st_mtime_ns)
