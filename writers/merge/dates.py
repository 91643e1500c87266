"""Merges dates: plans each, has its phases run, publishes, and goes on where a killed merge stopped.

Phases 0 to 3 leave nothing outside the staging directories, so a merge killed there starts clean. From the stored
``check`` on a restart goes on: publishing, indexing and recording are the same however often they are done.
The merge record of phase ``record`` is the commit point: readers see the old state before it and the new after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from store.errors import SparkhavenError
from store.fs import Fs
from store.layout import Layout, TableName
from store.merges import PHASES, MergeRecord, generations, load_record, lock_table, newest, store_record
from writers.merge.executor import Executor
from writers.merge.intake import Intake, Pins, holds, still_pinned, take_in
from writers.merge.phases import WholeDate, run_phases, run_whole
from writers.merge.plan import PARALLEL_ROWS, Destination, MergeOptions
from writers.merge.publish import publish, retire, sweep, write_index

GRACE_S = 3600.0
WAVE_TASKS = 32  # small dates per worker that are staged before the first of them is published


@dataclass(frozen=True, slots=True)
class DateResult:
    """What became of one date. ``outcome`` is merged, supplement, resumed, nothing (already merged), empty, planned or
    failed; ``destinations`` are (internal partition, rows) of what this run wrote."""

    value: str
    outcome: str
    phase: str
    rows_in: int
    rows_out: int
    destinations: tuple[tuple[str, int], ...]
    seconds: float
    generation: int = 0
    pieces: int = 1
    error: SparkhavenError | OSError | None = None


@dataclass(frozen=True, slots=True)
class _Failure:
    error: SparkhavenError | OSError


def merge_dates(
    fs: Fs,
    layout: Layout,
    table: TableName,
    values: Sequence[str],
    options: MergeOptions,
    *,
    executor: Executor,
    clock: Callable[[], float],
    dry_run: bool = False,
    stop_on_error: bool = False,
) -> Iterator[DateResult]:
    """Merges dates under the table's lock; yields one result a date. A date that fails does not stop the others.

    ``clock`` gives seconds since the epoch. With ``dry_run`` nothing is written and the results say what would be.
    """
    if dry_run:
        pins = Pins(fs, layout, table)
        for value in values:
            yield _dry(fs, layout, table, value, options, clock, pins)
        return
    lock = lock_table(fs, layout, table)
    try:
        merge = _Merge(fs, layout, table, options, executor, clock)
        for result in merge.run(values):
            yield result
            if stop_on_error and result.error is not None:
                return
    finally:
        lock.release()


def _dry(
    fs: Fs,
    layout: Layout,
    table: TableName,
    value: str,
    options: MergeOptions,
    clock: Callable[[], float],
    pins: Pins,
) -> DateResult:
    begun = clock()
    try:
        intake = take_in(fs, layout, table, value, options, pins, dry_run=True)
    except (SparkhavenError, OSError) as error:
        return DateResult(value, "failed", "plan", 0, 0, (), clock() - begun, error=error)
    outcome = "planned" if intake.outcome in ("merged", "supplement") else intake.outcome
    names = tuple((d.internal, 0) for d in intake.plan.destinations) if intake.plan else ()
    rows = intake.plan.rows if intake.plan else 0
    pieces = intake.plan.ranges() if intake.plan else 1
    return DateResult(value, outcome, "plan", rows, 0, names, clock() - begun, intake.record.generation, pieces)


class _Merge:
    def __init__(
        self,
        fs: Fs,
        layout: Layout,
        table: TableName,
        options: MergeOptions,
        executor: Executor,
        clock: Callable[[], float],
    ) -> None:
        self.fs, self.layout, self.table = fs, layout, table
        self.options = replace(options, workers=max(options.workers, executor.workers))
        self.executor, self.clock = executor, clock
        self.pins = Pins(fs, layout, table)

    def run(self, values: Sequence[str]) -> Iterator[DateResult]:
        """All dates, in waves: what is published after each is safe from a kill during the next."""
        wave = WAVE_TASKS * self.options.workers
        for first in range(0, len(values), wave):
            yield from self._wave(values[first : first + wave])

    def _wave(self, values: Sequence[str]) -> Iterator[DateResult]:
        """Small dates together, one task each; large ones one after the other, over all workers."""
        small: list[tuple[Intake, float]] = []
        large: list[tuple[Intake, float]] = []
        for value in values:
            begun = self.clock()
            try:
                done = self._resume(value, begun)
                if done is not None:
                    yield done
                    continue
                intake = self._plan(value)
            except (SparkhavenError, OSError) as error:
                yield self._failed(value, "plan", begun, error)
                continue
            if intake.plan is None:
                yield self._settle(intake, begun)
            elif intake.plan.ranges() > 1 and intake.plan.rows >= PARALLEL_ROWS // 2:
                large.append((intake, begun))
            else:
                small.append((intake, begun))
        yield from self._small(small)
        for intake, begun in large:
            yield self._large(intake, begun)

    # --- up to the check ---

    def _plan(self, value: str) -> Intake:
        with self.fs.during("merge-plan"):
            intake = take_in(self.fs, self.layout, self.table, value, self.options, self.pins)
            if intake.plan is None:
                return intake
            record = replace(intake.record, time_ms=int(self.clock() * 1000))
            sweep(self.fs, staging_of(record))
            store_record(self.fs, self.layout, self.table, record)
            return replace(intake, record=record)

    def _task(self, intake: Intake) -> WholeDate:
        assert intake.plan is not None  # noqa: S101
        return WholeDate(intake.plan, intake.record, intake.record.time_ms)

    def _small(self, intakes: Sequence[tuple[Intake, float]]) -> Iterator[DateResult]:
        tasks = [self._task(intake) for intake, _ in intakes]
        results = self.executor.run(partial(_guarded, self.fs, self.layout), tasks)
        for (intake, begun), result in zip(intakes, results, strict=True):
            yield self._end(intake, begun, result)

    def _large(self, intake: Intake, begun: float) -> DateResult:
        try:
            record = run_phases(self.fs, self.layout, self._task(intake), self.executor.run, split=True)
        except (SparkhavenError, OSError) as error:
            return self._end(intake, begun, _Failure(error))
        return self._end(intake, begun, record)

    def _end(self, intake: Intake, begun: float, result: MergeRecord | _Failure) -> DateResult:
        value, plan = intake.record.value, intake.plan
        assert plan is not None  # noqa: S101
        if isinstance(result, _Failure):
            sweep(self.fs, [d.stage_root for d in plan.destinations])
            return self._failed(value, getattr(result.error, "phase", None) or "stage", begun, result.error)
        record = result
        try:
            still_pinned(plan, self.pins)
            record = intake.combine(record)
            store_record(self.fs, self.layout, self.table, record)
            record = self._publish(record)
        except (SparkhavenError, OSError) as error:
            return self._failed(value, record.phase, begun, error)
        written = tuple((o.internal, o.rows) for o in result.outputs)
        rows = sum(count for _, count in written)
        return DateResult(
            value,
            intake.outcome,
            record.phase,
            plan.rows,
            rows,
            written,
            self.clock() - begun,
            record.generation,
            plan.ranges(),
        )

    def _settle(self, intake: Intake, begun: float) -> DateResult:
        """A date with nothing to write: already merged, or empty and allowed to be."""
        self._clean(intake.record.value)
        record = intake.record
        return DateResult(record.value, intake.outcome, record.phase, 0, 0, (), self.clock() - begun, record.generation)

    def _failed(self, value: str, phase: str, begun: float, error: SparkhavenError | OSError) -> DateResult:
        return DateResult(value, "failed", phase, 0, 0, (), self.clock() - begun, error=error)

    # --- from the check on ---

    def _resume(self, value: str, begun: float) -> DateResult | None:
        """Goes on with a merge that was killed after its check; None if there is none."""
        record = newest(self.fs, self.layout, self.table, value, complete=False)
        if record is None or record.phase == "clean" or PHASES.index(record.phase) < PHASES.index("check"):
            return None
        if record.complete:  # killed while it tidied up
            self._tidy(record)
            return None
        if record.phase == "check" and not holds(record, self.pins):
            sweep(self.fs, staging_of(record))
            return None
        rows = sum(output.rows for output in record.outputs)
        record = self._publish(record)
        written = tuple((o.internal, o.rows) for o in record.outputs)
        return DateResult(value, "resumed", record.phase, rows, rows, written, self.clock() - begun, record.generation)

    def _publish(self, record: MergeRecord) -> MergeRecord:
        fs, layout, table, value = self.fs, self.layout, self.table, record.value
        with fs.during("merge-publish"):
            for destination in destinations_of(record):
                publish(fs, layout, table, value, destination)
        record = self._advance(record, "publish")
        with fs.during("merge-index"):
            write_index(fs, layout, table, value, record.outputs, record.replaces, record.time_ms)
        record = self._advance(record, "index")
        with fs.during("merge-record"):
            record = self._advance(record, "record")
        return self._tidy(record)

    def _tidy(self, record: MergeRecord) -> MergeRecord:
        with self.fs.during("merge-clean"):
            sweep(self.fs, staging_of(record))
            self._clean(record.value)
        return self._advance(record, "clean")

    def _advance(self, record: MergeRecord, phase: str) -> MergeRecord:
        record = replace(record, phase=phase)
        store_record(self.fs, self.layout, self.table, record)
        return record

    def _clean(self, value: str) -> None:
        """Removes replaced locations whose grace is over."""
        now = self.clock()
        current = newest(self.fs, self.layout, self.table, value)
        if current is None:
            return
        alive = {output.internal for output in current.outputs}
        for number in generations(self.fs, self.layout, self.table, value):
            record = load_record(self.fs, self.layout, self.table, value, number)
            if record.complete and now - record.time_ms / 1000 >= GRACE_S:
                for internal in record.replaces:
                    if internal not in alive:
                        retire(self.fs, self.layout, self.table, value, internal)


def _guarded(fs: Fs, layout: Layout, task: WholeDate) -> MergeRecord | _Failure:
    try:
        return run_whole(fs, layout, task)
    except (SparkhavenError, OSError) as error:
        return _Failure(error)


def destinations_of(record: MergeRecord) -> list[Destination]:
    """The destinations that a record's own run wrote and that have rows."""
    made = {output.internal for output in record.outputs}
    entries = [entry for entry in record.details["destinations"] if entry[1] in made]
    return [Destination(entry[0], entry[1], Path(entry[2]), Path(entry[3])) for entry in entries]


def staging_of(record: MergeRecord) -> list[Path]:
    """Every staging directory of a record's run, used or not."""
    roots = {Path(entry[2]) for entry in record.details["destinations"]} | {Path(record.details["work"])}
    return sorted(roots)
