"""Data frames into a table: ``deephaven_writer`` for streaming queries, ``write_frame`` for rows that are there."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sparkhaven.ingest.feeds.frames import plain_schema, simple_type
from sparkhaven.jobs.dataframes.frame_stream import FrameStream, open_stream, quarantine_of
from sparkhaven.jobs.session.interpreter import refuse_remote
from sparkhaven.jobs.settings.frame_options import FrameKeywords, FrameOptions, frame_options
from sparkhaven.jobs.streams.stream_run import ErrorBudget
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, Maintenance
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.spark.frame_task import FrameResult, FrameWork, write_rows
from sparkhaven.writers.spark.frame_writes import FrameCommits, FrameSource, batch_of_query, labelled, run_frame
from sparkhaven.writers.spark.stream_query import refuse_speculation
from sparkhaven.writers.spark.workers import check_workers
from sparkhaven.writers.task import StreamTarget
from sparkhaven.writers.users.arrow_columns import arrow_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Results = list[FrameResult]


def deephaven_writer(root: str | Path, table: str, stream: str, **options: Unpack[FrameKeywords]) -> FrameWriter:
    """What ``df.writeStream.foreachBatch(...)`` takes: each micro-batch becomes one epoch of a stream of the table.

    ``schema`` is a file or its bytes, deployed at the first batch. None takes the deployed one. The columns of the
    frame have the names of the table's. Others are listed in ``ignore``. A number that a float or double does not hold
    exactly is a bad row. Columns in ``lossy`` take the nearest value instead, with True all of them. ``internal`` and
    ``value`` route the rows, as ``[partition]`` of a stream file does. Each is a column's name, or a table like
    ``{"fixed": "a"}`` or ``{"column": "time", "zone": "America/New_York"}``. ``bounds`` has its other keys
    (``max_past``, ``max_future``, ``clock``, ``late``). A stream keeps its rule: another one is refused, unless
    ``accept_rule`` takes it. Rows that are stored stay where they are.

    A row that cannot be stored stops the query, with nothing committed. ``bad_rows``, by the keys of ``[bad_rows]`` in
    a stream file, sets an error budget. Within it such rows go to the quarantine (default
    ``<root>/.quarantine/<stream>``), as objects of their columns. They are known by position, or else by batch, task
    and place in it. ``quarantine list`` and ``drop`` work on them. To ingest one again, write it repaired with
    ``write_frame`` and a ``label``, which writes it once: no command knows the options of this writer.

    ``positions`` names the columns that say where a row comes from: ``{"partition": ..., "offset": ...}``, and
    ``"topic"`` where there are several. Then every row is stored exactly once, whatever happens to Spark's checkpoint,
    as long as the source gives the same rows for the same offsets. Rows of an offset stay together. Offsets must be
    consecutive. Where the query filters, or the topic is compacted or written by transactions, set ``allow_gap``. Then
    gaps between batches are recorded and gaps inside them are not checked.

    Without ``positions`` a batch is known by the query, its batch id and a digest of its rows. That survives every
    crash of driver and workers, since Spark then repeats its last batch. It does **not** survive:

    * a checkpoint that is deleted or torn. The new query may send rows again, and is refused. ``adopt``, for one start,
      declares that it starts where the old one ended. That is then yours to ensure.
    * a checkpoint older than the commit log, as a copy or after a power failure: Spark plans new batches under old ids.
      Refused. Roll the stream back to the epoch before the first such batch, which the error names.
    * a source or query that gives other rows when a batch is repeated. Causes are a random or current value, an
      unordered limit, a file overwritten. Refused, as other rows under a known batch id.
    * a second query into the same stream: give it a stream of its own.

    The stream stays locked until ``close()``. Used as a context manager it closes itself. After an error it is
    released, and the next batch opens it again.

    Args:
        root: The root of a database.
        table: The table, as ``NS.T``.
        stream: The stream, of which no other process writes.
        **options: Those of ``FrameKeywords``. ``internal`` and ``value`` have to be given.

    Returns:
        The writer, which opens the stream at its first batch.

    Raises:
        SettingsError: An option has a value that it does not take.
        InvalidNameError: Table or stream have no valid name.

    Example:
        >>> rules = {"internal": "Sym", "value": {"fixed": "2026-11-20"}}
        >>> writer = sparkhaven.deephaven_writer(root, "Equity.Trade", "s", **rules)
        >>> writer.epoch
        0
    """
    return FrameWriter(frame_options(root, table, stream, **options))


def write_frame(
    frame: Any, root: str | Path, table: str, stream: str, *, label: str | None = None, **options: Unpack[FrameKeywords]
) -> BatchOutcome:
    """Writes rows as one epoch. ``frame`` is a Spark frame, which Spark's workers write, or anything that gives Arrow.

    With ``positions`` committed rows are dropped. With a ``label`` the rows are written once under that name: the same
    rows again are a no-op, other rows a PositionGapError. A frame without rows takes no label. With neither, each call
    adds all rows. Nothing was written where the commit of a batch raises an error.
    """
    if label is not None and options.get("positions"):
        raise SettingsError("a frame with positions has a label", found=label)
    with deephaven_writer(root, table, stream, **options) as writer:
        return writer.write(frame, labelled(label), "write", 0)


class SparkRows:
    """A Spark frame to write: each of its tasks writes files of its own."""

    def __init__(self, frame: DataFrame) -> None:
        refuse_remote(frame.sparkSession)
        refuse_speculation(frame.sparkSession)
        self._frame = frame
        self.fields = [(column.name, column.dataType.simpleString()) for column in frame.schema.fields]

    def check(self, root: Path, marker: Path) -> None:
        """SettingsError: the workers do not see the root."""
        check_workers(self._frame.sparkSession.sparkContext, root, marker)

    def run(self, fs: Fs, target: StreamTarget, used: Sequence[str], work: FrameWork, scratch: str) -> Results:
        rows = self._frame.select(*(f"`{name.replace('`', '``')}`" for name in used))
        return run_frame(fs, target, rows, work, scratch)


class ArrowRows:
    """Rows as Arrow to write, by one task in this process."""

    def __init__(self, data: Any) -> None:
        rows = arrow_stream(data)
        self._schema, self._rows = plain_schema(rows.schema), rows
        self.fields = [(field.name, simple_type(field.type)) for field in self._schema]

    def check(self, root: Path, marker: Path) -> None:
        """Nothing: this process has opened the stream."""

    def run(self, fs: Fs, target: StreamTarget, used: Sequence[str], work: FrameWork, scratch: str) -> Results:
        batches = (batch.cast(self._schema).select(used) for batch in self._rows)
        result = write_rows(fs, WorkerCache(), target, work, scratch, batches)
        return [] if result is None else [result]


def _rows_of(frame: Any) -> SparkRows | ArrowRows:
    is_spark = type(frame).__module__.partition(".")[0] == "pyspark" and hasattr(frame, "sparkSession")
    return SparkRows(frame) if is_spark else ArrowRows(frame)


class FrameWriter:
    """Created by ``deephaven_writer``. ``last`` is the outcome of the newest batch, ``epoch`` the newest epoch."""

    def __init__(self, options: FrameOptions, *, fs: Fs | None = None) -> None:
        self.last: BatchOutcome | None = None
        self._options, self._fs = options, fs or Fs()
        self._stream: FrameStream | None = None
        self._maintenance: Maintenance
        self._memory = WorkerCache()
        self._budget = ErrorBudget(options.spec.bad_rows)
        self._lock = threading.Lock()
        self._checked = False

    @property
    def epoch(self) -> int:
        """The newest epoch that this writer knows, 0 before its first batch."""
        return self._stream.log.state.epoch if self._stream is not None else 0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch of a streaming query."""
        refuse_remote(frame.sparkSession)
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query_id is None:
            raise SettingsError(
                "the frame is not a batch of a streaming query",
                hint="pass the writer to df.writeStream.foreachBatch. Write a batch frame with write_frame",
            )
        self.write(frame, batch_of_query(query_id, batch_id), query_id, batch_id)

    def write(self, frame: Any, identity: OffsetRange | None, query_id: str, batch_id: int) -> BatchOutcome:
        """Commits those rows of a frame as one epoch that are not committed yet."""
        rows = _rows_of(frame)
        with self._lock:
            try:
                outcome = self._write(rows, identity, query_id, batch_id)
                self._maintenance.after_batch()
            except BaseException:
                self._release()
                raise
            self._budget.committed(outcome)
            self.last = outcome
            return outcome

    def close(self) -> None:
        """Makes all commits durable in any mode, and releases the stream."""
        with self._lock:
            if self._stream is not None:
                stream, self._stream = self._stream, None
                with stream.log:
                    self._maintenance.finish()
                stream.remove_unwritten(self._fs)

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(
        self, rows: SparkRows | ArrowRows, identity: OffsetRange | None, query_id: str, batch_id: int
    ) -> BatchOutcome:
        quarantine = quarantine_of(self._fs, self._options)
        stream = self._open(query_id, quarantine)
        plan, used = stream.fit(rows.fields, self._budget, quarantine.add if quarantine else None)
        target = stream.target
        if not self._checked:
            rows.check(self._options.root, target.lock_file)
            self._checked = True
        run = partial(rows.run, self._fs, target, used)
        source = FrameSource(query_id, batch_id, None if plan.positions else identity)
        return FrameCommits(self._fs, stream.log, target, plan, self._memory).write(run, source)

    def _open(self, query_id: str, quarantine: Quarantine | None) -> FrameStream:
        if self._stream is None:
            options = self._options
            self._stream = open_stream(self._fs, options, query_id, quarantine)
            log = self._stream.log
            self._maintenance = Maintenance(log, options.policy, lambda error: warnings.warn(str(error), stacklevel=1))
        return self._stream

    def _release(self) -> None:
        """Releases the lock without writing to the log, which is read again when the stream is opened.

        A new stream into which nothing was written goes.
        """
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.log.abandon()
            stream.remove_unwritten(self._fs)
