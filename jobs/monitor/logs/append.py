"""Appends rows to a log table: one epoch of our own layout, by the steps of every other batch.

Each process that writes at the same time has a stream of its own, ``log-0``, ``log-1``, ..., the first one that nobody
has locked; its name is also the internal partition. So there are as many streams as processes ever wrote at once, not
one a process. A stream is open for one append only: nobody waits for a process that only holds it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from sparkhaven.jobs.monitor.logs.log_tables import TIMESTAMP, LogRow, LogTable
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.epochs.state.partition_rule import PartitionRule
from sparkhaven.store.errors import LockLostError, SchemaChangeError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, write_batch
from sparkhaven.writers.batch.maintenance import Maintenance
from sparkhaven.writers.batch.scratch import remove_stale_scratch
from sparkhaven.writers.batch.task import Task, run_task
from sparkhaven.writers.task.decoding import SplitNotes
from sparkhaven.writers.task.target import StreamTarget

STREAMS = 64  # that one log table may have: processes that write to it at the same time
BY_DAY = PartitionRule({"value.zone": "UTC"})
PLACE = ("rows", 0)  # topic and partition of the positions: rows are counted from 0


def stream_name(number: int) -> str:
    """The stream, and internal partition, of the process that found the smaller numbers locked."""
    return f"log-{number}"


def append_rows(
    fs: Fs,
    layout: Layout,
    table: LogTable,
    rows: Sequence[LogRow],
    *,
    run_id: str,
    clock: Callable[[], float],
    warn: Callable[[SparkhavenError], None],
) -> int:
    """Commits rows as one epoch of a log table, durably; deploys its schema first. Returns the epoch.

    ``warn`` receives errors after the commit. LockLostError: all streams of the table are locked. Others as
    ``deploy``, ``StreamLog.open`` and ``write_batch``.
    """
    schema = _deployed(fs, layout, table)
    with _open(fs, layout, table, schema, run_id, clock) as log:
        stream, offsets = log.state.stream, log.state.offsets
        remove_stale_scratch(StreamPlace(fs, layout, table.table, stream))
        start = offsets[PLACE].stop if PLACE in offsets else 0
        added = OffsetRange(*PLACE, start, start + len(rows))
        target = StreamTarget(layout, table.table, stream, schema, log.state.generation, takes_late=True)
        memory = WorkerCache()

        def decode(split: Split, notes: SplitNotes) -> Iterable[tuple[LocationKey, pa.RecordBatch]]:
            notes.source.count(len(rows))
            return by_day(schema, stream, rows)

        outcome = write_batch(
            fs,
            log,
            target,
            memory,
            BatchRequest(
                lambda scratch, instead: [
                    run_task(fs, memory, target, decode, Task(0, 0, scratch, [added], alone=True, instead=instead))
                ],
                query_id=run_id,
                batch_id=log.state.epoch + 1,
                proposed=[added],
            ),
        )
        maintenance = Maintenance(log, target.policy, warn)
        maintenance.after_batch()
        maintenance.finish()
    return outcome.epoch or 0


def _deployed(fs: Fs, layout: Layout, table: LogTable) -> TableSchema:
    """The schema of a log table; where a newer release has added columns to it, that of the newer release."""
    try:
        return deploy(fs, layout, table.schema())
    except SchemaChangeError:
        return load_deployed(TablePlace(fs, layout, table.table))


def by_day(schema: TableSchema, internal: str, rows: Sequence[LogRow]) -> list[tuple[LocationKey, pa.RecordBatch]]:
    """Rows as typed batches by the UTC day of their time, which is in nanoseconds since 1970."""
    days: dict[str, list[LogRow]] = {}
    for row in rows:
        moment = datetime.fromtimestamp(int(str(row[TIMESTAMP])) // 10**9, UTC)
        days.setdefault(f"{moment:%Y-%m-%d}", []).append(row)
    return [(LocationKey(internal, day), _typed(schema, day_rows)) for day, day_rows in days.items()]


def _typed(schema: TableSchema, rows: Sequence[LogRow]) -> pa.RecordBatch:
    arrays = [pa.array([row.get(column.name) for row in rows], column.type.arrow) for column in schema.stored]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in schema.stored])


def _open(
    fs: Fs, layout: Layout, table: LogTable, schema: TableSchema, run_id: str, clock: Callable[[], float]
) -> StreamLog:
    number = 0
    while True:
        try:
            return StreamLog.open(
                StreamPlace(fs, layout, table.table, stream_name(number)),
                Opening(
                    schema=schema, query_id=run_id, clock=clock, pid=os.getpid(), host=socket.gethostname(), rule=BY_DAY
                ),
            )
        except LockLostError:
            number += 1
            if number == STREAMS:
                raise
