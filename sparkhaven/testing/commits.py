"""Batches of splits, committed in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task.decoding import Decode
from sparkhaven.writers.task.target import StreamTarget


def open_log(fs: Fs, layout: Layout, schema: TableSchema, stream: str) -> StreamLog:
    """The log of a stream of this table, held by this process."""
    table = TableName(schema.namespace, schema.name)
    return StreamLog.open(StreamPlace(fs, layout, table, stream), Opening(schema, "test", time.time))


def commit_splits(
    fs: Fs, layout: Layout, log: StreamLog, schema: TableSchema, splits: Sequence[Split], decode: Decode
) -> BatchOutcome:
    """One batch by one task; nothing is synced."""
    table, state = TableName(schema.namespace, schema.name), log.state
    target = StreamTarget(layout, table, state.stream, schema, state.generation, CommitPolicy("none"))

    def execute(scratch: str, instead: Mapping[Split, Split | None]) -> list[TaskResult]:
        task = Task(0, 0, scratch, splits, alone=True, instead=instead)
        return [run_task(fs, WorkerCache(), target, decode, task)]

    request = BatchRequest(execute, query_id="test", batch_id=0, proposed=splits)
    return write_batch(fs, log, target, WorkerCache(), request)
