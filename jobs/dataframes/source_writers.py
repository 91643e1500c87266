"""``df.write`` and ``df.writeStream`` with ``format("deephaven")``: the writers of a Python data source.

Spark calls them in processes of their own, in the steps of ``writers.spark.frame_writes``:

*begin*   for a frame ``batch_writer``; for each batch of a query the pickling of what ``stream_writer`` returns, since
          Spark calls ``stream_writer`` again for the commit
*tasks*   ``write``, whose message has the lease
*commit*  ``commit`` or ``abort`` with the messages of all tasks

With option ``badRows`` the commit writes rejected rows to the quarantine, durably, before the epoch. Each write of a
frame, and each micro-batch, is a generation of the stream. ``deephaven_writer`` holds the stream open instead, which
spares a recovery and two processes per batch.
"""

from __future__ import annotations

import os
import pickle
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from sparkhaven.ingest.feeds.frames import Fields
from sparkhaven.jobs.dataframes.frame_stream import (
    open_stream,
    plan_of,
    quarantine_of,
    remove_unwritten,
    take_over_stream,
)
from sparkhaven.jobs.settings.frame_options import FrameOptions
from sparkhaven.jobs.settings.source_options import WriteOptions, write_options
from sparkhaven.jobs.streams.decoding import FrameDecoder
from sparkhaven.jobs.streams.stream_run import ErrorBudget, rows_of_hour
from sparkhaven.readers.spark.releases import installed_spark, message_first
from sparkhaven.readers.spark.source_api import DataSourceStreamArrowWriter
from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, Maintenance
from sparkhaven.writers.spark.frame_task import FrameResult
from sparkhaven.writers.spark.frame_writes import (
    FrameCommits,
    FrameSource,
    LeasedWrite,
    Ticket,
    abort_write,
    batch_of_query,
    failed,
    labelled,
    write_task,
)
from sparkhaven.writers.spark.spark_tasks import is_on, local_property, speculation

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FRAME = "write"  # the query id of a frame that is written once
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties that Spark sets
_CACHE = WorkerCache()  # of a worker process, which Spark reuses for many tasks


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of a batch frame of this schema; it has begun the write.

    SettingsError, InvalidNameError, SchemaMismatchError, LockLostError and what ``StreamLog.open`` raises: nothing was
    written.
    """
    if overwrite:
        raise _only_append('mode("append")', 'mode("overwrite")')
    checked = write_options(options, os.environ, streaming=False)
    return _BatchWriter(checked, begin(Fs(), checked, _types(schema)))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """The writer of the batches of a streaming query; SettingsError, InvalidNameError: wrong options, or PySpark 4.0.

    It begins a write when it is pickled for the tasks of a batch, and then raises WriteRefused.
    """
    if overwrite:
        raise _only_append('outputMode("append")', 'outputMode("complete")')
    if installed_spark().numbers < (4, 1):
        raise SettingsError(
            "this release of Spark gives no Arrow batches to a stream's writer",
            where='writeStream.format("deephaven")',
            expected="pyspark 4.1 or later",
            found=f"pyspark {installed_spark().version}",
            hint="use writeStream.foreachBatch(sparkhaven.deephaven_writer(...))",
        )
    return _StreamWriter(write_options(options, os.environ, streaming=True), _types(schema))


class WriteRefused(pickle.PicklingError):
    """A write that cannot begin; the text is the whole error. PySpark leaves the text of such errors as it is."""


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed here
    """What a task sends to the commit. ``found`` None: it had no rows; ``query``: id of the streaming query."""

    ticket: Ticket
    found: FrameResult | None
    query: str | None = None


class _BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: WriteOptions, write: LeasedWrite) -> None:
        self._options, self._write = options, write

    @message_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return run(Fs(), self._write, iterator, streaming=False)

    @message_first()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(Fs(), self._options, _sent(messages), FrameSource(FRAME, 0, labelled(self._options.label)))

    @message_first()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(Fs(), self._options, self._write.ticket)


class _StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, options: WriteOptions, fields: Fields) -> None:
        self._options, self._fields = options, fields
        self._write: LeasedWrite | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Begins the write: only the process that plans a batch pickles the writer, for its tasks."""
        if self._write is None:
            try:
                with message_first():
                    self._write = begin(Fs(), self._options, self._fields)
            except SparkhavenError as error:
                raise WriteRefused(f"{type(error).__name__}: {error}") from error
        return self.__dict__

    @message_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        assert self._write is not None  # noqa: S101 - it came pickled
        return run(Fs(), self._write, iterator, streaming=True)

    @message_first()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits a micro-batch as one epoch, unless it is committed already."""
        sent = _sent(messages)
        query = sent[0].query
        if query is None:
            raise SettingsError("the rows are not a batch of a streaming query", where="local property " + QUERY_ID)
        identity = None if self._options.frame.positions else batch_of_query(query, batchId)
        commit(Fs(), self._options, sent, FrameSource(query, batchId, identity))

    @message_first()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for message in messages:
            if isinstance(message, TaskMessage):
                abort(Fs(), self._options, message.ticket)
                return


def begin(fs: Fs, options: WriteOptions, fields: Fields) -> LeasedWrite:
    """Begins a write of frames of these columns (name and Spark's simple type)."""
    frame = options.frame
    stream = open_stream(fs, frame, "", quarantine_of(fs, frame))
    try:
        with stream.log as log:
            plan, used = stream.fit(fields, ErrorBudget(frame.spec.bad_rows))
            return FrameCommits(fs, log, stream.target, plan).begin(used, labelled(options.label), stream.begun)
    except BaseException:
        stream.remove_unwritten(fs)
        raise


def run(fs: Fs, write: LeasedWrite, rows: Iterator[pa.RecordBatch], *, streaming: bool) -> TaskMessage:
    """Runs a task of a write. Without ``streaming`` it is a frame, even where a batch of some query writes it."""
    query, batch = (local_property(QUERY_ID), local_property(BATCH_ID)) if streaming else (None, None)
    identity = batch_of_query(query, int(batch)) if query is not None and batch is not None else None
    if is_on(local_property("spark.speculation")):
        result: FrameResult | None = failed(speculation())
    else:
        result = write_task(fs, _CACHE, write, identity, rows)
    return TaskMessage(write.ticket, result, query)


def commit(fs: Fs, options: WriteOptions, sent: Sequence[TaskMessage], source: FrameSource) -> BatchOutcome:
    frame, ticket = options.frame, sent[0].ticket
    schema = ticket.target.schema
    results = [message.found for message in sent if message.found is not None]
    quarantine = quarantine_of(fs, frame)
    with take_over_stream(fs, frame, schema, ticket.lease).log as log:
        budget = ErrorBudget(frame.spec.bad_rows, earlier=partial(_earlier, fs, frame, source))
        decode = FrameDecoder(frame.spec, schema)
        plan = plan_of(frame, decode, budget, quarantine.add if quarantine else None)
        outcome = FrameCommits(fs, log, ticket.target, plan).commit_write(ticket, results, source)
        maintenance = Maintenance(log, frame.policy, lambda error: warnings.warn(str(error), stacklevel=1))
        maintenance.after_batch()
        maintenance.finish()
    _remove_unwritten(fs, options, ticket)  # a frame without rows is no epoch
    return outcome


def abort(fs: Fs, options: WriteOptions, ticket: Ticket) -> None:
    """Ends a write that is not committed; after a commit it changes nothing."""
    abort_write(fs, ticket)
    _remove_unwritten(fs, options, ticket)


def _remove_unwritten(fs: Fs, options: WriteOptions, ticket: Ticket) -> None:
    if ticket.begun is not None:
        remove_unwritten(fs, options.frame, ticket.begun, ticket.lease.generation)


def _earlier(fs: Fs, frame: FrameOptions, source: FrameSource) -> tuple[int, int]:
    """Bad and all rows that the query has committed in the last hour; the process of a commit remembers no other."""
    if source.query_id == FRAME:
        return 0, 0
    epochs = list_epochs(StreamPlace(fs, Layout(frame.root), frame.table, frame.stream))
    return rows_of_hour((epoch for epoch in epochs if epoch.query_id == source.query_id), time.time())


def _sent(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    """The messages of all tasks; SettingsError: they are not of one write."""
    sent = [message for message in messages if isinstance(message, TaskMessage)]
    if not sent or len(sent) < len(messages) or len({message.ticket.scratch for message in sent}) > 1:
        raise SettingsError("the messages of the tasks are not those of one write", found=f"{len(sent)} messages")
    return sent


def _types(schema: StructType) -> Fields:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _only_append(expected: str, found: str) -> SettingsError:
    return SettingsError(
        "the output mode is not append",
        where='format("deephaven")',
        expected=expected,
        found=found,
        hint="to remove rows, see `sparkhaven epochs rollback --help`, or `sparkhaven truncate --help`",
    )
