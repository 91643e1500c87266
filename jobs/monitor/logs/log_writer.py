"""Buffers rows of log tables and appends them now and then: at most one epoch a minute and table, and one at the end.

What is logged never waits for its log: ``add`` only puts a row into a list, a thread writes. An error is a warning and
is counted; the rows are tried again with the next ones. A process that is killed loses the rows of its last minute.

Rows are appended by the steps of every other batch. Each process that writes at the same time has a stream of its own,
``log-0``, ``log-1``, ..., the first one that nobody has locked; its name is also the internal partition. So there are
as many streams as processes ever wrote at once, not one a process. A stream is open for one append only: nobody waits
for a process that only holds it.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from sparkhaven.jobs.monitor.logs.log_tables import TIMESTAMP, LogRow, LogTable
from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import OffsetRange, Split
from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.errors import LockLostError, SchemaChangeError, SparkhavenError, as_ours, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchRequest, Maintenance, write_batch
from sparkhaven.writers.batch.scratch import remove_stale_scratch
from sparkhaven.writers.batch.task import Task, run_task
from sparkhaven.writers.task import SplitNotes, StreamTarget


@dataclass(frozen=True, slots=True)
class LogPace:
    """When log rows are written: every so many seconds. At its end a process waits so many seconds for the last rows.

    ``max_rows``: of a table that wait; of more the oldest are lost.
    """

    every_s: float = 60.0
    end_s: float = 10.0
    max_rows: int = 10_000


class LogWriter:
    """The log tables of one database root, for one process. Thread-safe.

    ``clock``: seconds since 1970. ``warn`` receives a sentence, ``on_failure`` the name of the log table and the
    number of rows that are lost for good, each time that a write fails or more rows of a table wait than ``pace`` says.
    As a context manager it writes at that pace and at the end.
    """

    def __init__(
        self,
        fs: Fs,
        layout: Layout,
        *,
        warn: Callable[[str], None],
        on_failure: Callable[[str, int], None] | None = None,
        clock: Callable[[], float] = time.time,
        pace: LogPace = LogPace(),
    ) -> None:
        self.run_id = str(uuid.uuid4())
        self._fs, self._layout, self._warn = fs, layout, warn
        self._on_failure = on_failure or (lambda table, lost: None)
        self._clock, self._pace = clock, pace
        self._host = socket.gethostname()
        self._waiting: dict[LogTable, deque[LogRow]] = {}
        self._lost: dict[LogTable, int] = {}
        self._adding, self._writing = threading.Lock(), dict[LogTable, threading.Lock]()
        self._warned: dict[LogTable, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, table: LogTable, row: LogRow) -> None:
        """Buffers a row, with the time, the run and the host; returns at once."""
        whole = {TIMESTAMP: int(self._clock() * 1000) * 1_000_000, "RunId": self.run_id, "Host": self._host, **row}
        with self._adding:
            self._writing.setdefault(table, threading.Lock())
            rows = self._waiting.setdefault(table, deque(maxlen=self._pace.max_rows))
            if len(rows) == self._pace.max_rows:
                self._lost[table] = self._lost.get(table, 0) + 1
            rows.append(whole)

    def flush(self, only: LogTable | None = None) -> bool:
        """Appends the rows that wait, of all tables or of one, and returns whether none of them is left.

        Raises nothing: errors are warnings. Several threads may write at once, each another table.
        """
        for table in [table for table in list(self._waiting) if only in (None, table)]:
            with self._writing[table]:
                self._flush(table)
        return not any(rows for table, rows in list(self._waiting.items()) if only in (None, table))

    def _flush(self, table: LogTable) -> None:
        with self._adding:
            rows, lost = list(self._waiting[table]), self._lost.pop(table, 0)
            self._waiting[table].clear()
        if lost:
            self._on_failure(str(table.table), lost)
            self._warn(
                f"lost {counted(lost, 'row')} of {table.table}: more than {self._pace.max_rows:,} waited to be written"
            )
        if not rows:
            return
        try:
            if self._fs.stat(self._layout.root) is None:
                return  # nothing has run in a root that does not exist
            append_rows(
                TablePlace(self._fs, self._layout, table.table),
                table,
                rows,
                run_id=self.run_id,
                clock=self._clock,
                warn=lambda error: self._warn(str(error)),
            )
        except Exception as error:  # noqa: BLE001  no error of a log ends the job that it describes
            self._failed(table, rows, error)
        else:
            self._warned.pop(table, None)

    def _failed(self, table: LogTable, rows: list[LogRow], error: Exception) -> None:
        with self._adding:
            newer = self._waiting[table]
            retried = rows[max(0, len(rows) + len(newer) - self._pace.max_rows) :]
            newer.extendleft(reversed(retried))
        self._on_failure(str(table.table), len(rows) - len(retried))
        text = f"{table.table} cannot be written, the job goes on: {as_ours(error)}"
        if self._warned.get(table) != text:  # the same every minute is said once
            self._warned[table] = text
            self._warn(text)

    def __enter__(self) -> LogWriter:
        self._thread = threading.Thread(target=self._run, name="log-tables", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(self._pace.every_s):
            self.flush()
        self.flush()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(self._pace.end_s)
        unwritten = sum(len(rows) for rows in self._waiting.values())
        if self._thread.is_alive():
            self._warn(
                f"the log tables are not written within {self._pace.end_s:g} s. Rows of the last minute may be lost"
            )
        elif unwritten:
            self._warn(f"lost {counted(unwritten, 'row')} of log tables, which could not be written")


STREAMS = 64  # that one log table may have: processes that write to it at the same time
BY_DAY = PartitionRule({"value.zone": "UTC"})
PLACE = ("rows", 0)  # topic and partition of the positions: rows are counted from 0


def stream_name(number: int) -> str:
    """The stream, and internal partition, of the process that found the smaller numbers locked."""
    return f"log-{number}"


def append_rows(
    place: TablePlace,
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
    fs, schema = place.fs, _deployed(place, table)
    with _open(place, Opening(schema, run_id, clock, rule=BY_DAY)) as log:
        stream, offsets = log.state.stream, log.state.offsets
        remove_stale_scratch(place.of_stream(stream))
        start = offsets[PLACE].stop if PLACE in offsets else 0
        added = OffsetRange(*PLACE, start, start + len(rows))
        target = StreamTarget(place.layout, place.table, stream, schema, log.state.generation, takes_late=True)
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


def _deployed(place: TablePlace, table: LogTable) -> TableSchema:
    """The schema of a log table; where a newer release has added columns to it, that of the newer release."""
    try:
        return deploy(place.fs, place.layout, table.schema())
    except SchemaChangeError:
        return load_deployed(place)


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


def _open(place: TablePlace, opening: Opening) -> StreamLog:
    """The log of the first stream of a log table that no other process writes."""
    number = 0
    while True:
        try:
            return StreamLog.open(place.of_stream(stream_name(number)), opening)
        except LockLostError:
            number += 1
            if number == STREAMS:
                raise
