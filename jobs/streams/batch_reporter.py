"""What a running stream reports: each batch to progress, metrics, log tables and error budget; and how it ended.

It also notices a schema that another process has deployed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkhaven.jobs.monitor.logs.stream_rows import StreamRecorder
from sparkhaven.jobs.monitor.metrics.sink import StreamSink
from sparkhaven.jobs.streams.budget import ErrorBudget
from sparkhaven.jobs.streams.progress import PartitionProgress, Progress, total_lag
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.files.failure_note import clear_failure
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Stat
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.batch.stream_batches import BatchProgress, StreamTotals

ENDS_AGE_SECONDS = 0.25  # of the ends in a line of progress: bounds the requests to the broker


class BatchReporter:
    """Reports one run of a stream. ``query_id`` is that of its query."""

    def __init__(
        self,
        run: StreamRun,
        query_id: str,
        *,
        progress: Progress,
        metrics: StreamSink,
        recorder: StreamRecorder,
        schemas: SchemaWatch,
        budget: ErrorBudget,
    ) -> None:
        self._run, self._query_id = run, query_id
        self._progress, self._metrics, self._recorder = progress, metrics, recorder
        self._schemas, self._budget = schemas, budget
        self._positions = run.log.state.offsets.positions()
        self._partitions = PartitionProgress(self._positions)
        self._listen = run.listener(progress)
        self._unit = run.settings.spec.feed.traits.unit

    def batch(self, done: BatchProgress) -> None:
        """A batch that is committed, or was before."""
        run, before = self._run, self._positions
        clear_failure(run.place)
        run.so_far.add(done.outcome)
        self._budget.committed(done.outcome)
        self._metrics.batch(done)
        self._positions = run.log.state.offsets.positions()
        for text in run.remarks.of(done.outcome):
            self._progress.remark(run.label, text)
        if (news := self._schemas.news()) is not None:
            self._progress.remark(run.label, news)
        ends: Mapping[str, int] = {}
        if run.watch is not None:
            ends = run.watch.fresh(ENDS_AGE_SECONDS).ends
            done = replace(done, lag=total_lag(self._positions, ends))
        self._recorder.batch(done, run.log, before, self._query_id)
        shown = self._progress.partitions_shown
        line = self._partitions.line(self._positions, ends, done.seconds, shown=shown)
        self._progress.batch(run.name, done, line, table=run.settings.table, unit=self._unit, label=run.label)

    def source(self, report: Mapping[str, Any]) -> None:
        self._metrics.reported(report)
        self._listen(report)

    def warn(self, error: SparkhavenError) -> None:
        self._progress.warn(self._run.label, error)

    def ended(self, totals: StreamTotals) -> None:
        clear_failure(self._run.place)
        self._progress.ended(self._run.label, totals)
        self._recorder.ended(totals.epoch)


class SchemaWatch:
    """Looks at the deployed schema after each batch: one ``stat``, and a read when the file has changed."""

    def __init__(self, place: TablePlace, schema: TableSchema) -> None:
        self._place, self._schema = place, schema
        self._seen: Stat | None = None
        self._said = schema.version

    def news(self) -> str | None:
        """A sentence about a version that was deployed since, once; else None."""
        stat = self._place.fs.stat(self._place.schema)
        if stat == self._seen:
            return None
        self._seen = stat
        try:
            deployed = load_deployed(self._place)
        except SparkhavenError as error:
            return f"the deployed schema cannot be read: {error.what}"
        if deployed.version == self._said:
            return None
        self._said = deployed.version
        return (
            f"schema version {deployed.version} is deployed ({_difference(self._schema, deployed)}). This stream writes"
            f" version {self._schema.version} until it starts again with that schema"
        )


def _difference(old: TableSchema, new: TableSchema) -> str:
    before, after = ({c.id: c.name for c in schema.columns} for schema in (old, new))
    parts = [f"adds {after[number]}" for number in after.keys() - before.keys()]
    parts += [f"drops {before[number]}" for number in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    parts += [f"renames {before[n]} to {after[n]}" for n in both if before[n] != after[n]]
    return "; ".join(sorted(parts)) or "the same columns"
