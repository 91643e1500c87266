"""Merges dates: plans each, runs its phases, publishes it, and resumes a merge that was killed.

Phases 0 to 3 write only to staging directories, so a merge killed there starts from the beginning. From the stored
``check`` on a restart resumes: publishing, indexing and recording are idempotent. The merge record of phase ``record``
is the commit point: readers see the old state before it and the new state after it.

A planner says what is done with a date under the table's lock. Default: its rows go from intraday into history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from zlib import crc32

from sparkhaven.store.errors import SparkhavenError, in_phase, phase_of
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeRecord, lock_table, store_records
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.standing import dated_partitions
from sparkhaven.store.volumes import require_filled
from sparkhaven.writers.merge.adoption import adopted_by_command
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome, PhaseTimes, PhaseWatch
from sparkhaven.writers.merge.executor import Executor, ProgressExecutor
from sparkhaven.writers.merge.plan.date_plan import PlannedMerge, plan_merge
from sparkhaven.writers.merge.plan.merge_inputs import still_pinned
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.plan.output_plan import Turns
from sparkhaven.writers.merge.publish.publish_phase import Published, PublishPhase, clean_after
from sparkhaven.writers.merge.publish.staged_locations import sweep
from sparkhaven.writers.merge.write.phases import Checked, Failure, WholeDate, run_group, run_large
from sparkhaven.writers.partitions import DEFAULT_PARTITION, writable_names


class Planner(Protocol):
    """What ``merge_dates`` does with a date."""

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        """The plan for a date after its history. SparkhavenError: there is none."""

    def ends_with(self, place: TablePlace, record: MergeRecord) -> bool:
        """Whether nothing is left to do for a date once this merge, which was killed, is published."""


ASKED = "asked"  # entry of the run in the record of a merge anew: a checksum of the options that chose rows and files


class MergePlanner:
    """From intraday to history, as ``merge`` does."""

    def __init__(self, options: MergeOptions) -> None:
        self._anew = options.rewrite or options.discard_corrections
        chosen = options.sort, options.dedupe, options.format, options.distribution, sorted(options.only)
        self._asked = f"{crc32(repr((*chosen, options.discard_corrections)).encode()):08x}"

    def plan(
        self, place: TablePlace, history: DateHistory, options: MergeOptions, pins: Pins, turns: Turns, *, dry_run: bool
    ) -> PlannedMerge:
        planned = plan_merge(place, history, options, pins, turns, dry_run=dry_run)
        if not self._anew or planned.plan is None:
            return planned
        run = replace(planned.record.run, others={ASKED: self._asked})
        return replace(planned, record=replace(planned.record, run=run))

    def ends_with(self, place: TablePlace, record: MergeRecord) -> bool:
        """A killed merge may have been another command, and rows may have come since: what is left is planned.

        A merge anew by the same options is not made twice.
        """
        return self._anew and record.run.others.get(ASKED) == self._asked


WAVE_DATES = 32  # dates per worker that are planned before the first of them is published
GROUP_DATES = 16  # small dates of one task at most; they share one sync


@dataclass(frozen=True, slots=True)
class _Date:
    planned: PlannedMerge
    plan: MergePlan
    begun: float
    times: PhaseTimes

    @property
    def value(self) -> str:
        return self.plan.value

    def fitted(self, share: float) -> _Date:
        """This date for one worker, if it has at most ``share`` rows and fits a worker's memory."""
        alone = replace(self, plan=replace(self.plan, options=replace(self.plan.options, workers=1)))
        return self if self.plan.rows > share or alone.plan.large else alone

    @property
    def task(self) -> WholeDate:
        return WholeDate(self.plan, self.planned.record, self.planned.record.time_ms)


def merge_dates(
    place: TablePlace,
    values: Sequence[str],
    options: MergeOptions,
    *,
    executor: Executor,
    clock: Callable[[], float],
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[DateResult]:
    """Merges dates under the table's lock; yields one result per date. A failed date does not stop the others.

    ``clock``: seconds since the epoch; ``on_progress`` receives the progress of a large date. At the end the replaced
    locations of all dates are removed whose grace period is over. RetryableStorageError, before anything else: a volume
    to write to is not mounted.
    """
    return DateMerges(place, options, executor, clock, on_progress).locked(values)


class DateMerges:
    """Merges of dates by any ``planner``, under the table's lock."""

    def __init__(
        self,
        place: TablePlace,
        options: MergeOptions,
        executor: Executor,
        clock: Callable[[], float],
        on_progress: Callable[[str], None] = lambda _: None,
        planner: Planner | None = None,
    ) -> None:
        self.on_progress, self._planner = on_progress, planner or MergePlanner(options)
        self.place = place
        self.given, self.options = options, options
        self.executor, self.clock = executor, clock
        self.pins, self._turns = Pins(place), Turns(place, ())
        self.closing = PublishPhase(place, clock)
        self.clean_errors: dict[str, SparkhavenError | OSError] = {}  # by date
        self._resumed: dict[str, DateResult] = {}  # what was finished of a killed merge, before the plan of its date

    def with_planner(self, planner: Planner) -> DateMerges:
        """The same, planned otherwise."""
        return DateMerges(self.place, self.given, self.executor, self.clock, self.on_progress, planner)

    def planned(self, values: Sequence[str]) -> Iterator[DateResult]:
        """What would be done; nothing is written."""
        self._require_volumes()
        self._turns = Turns(self.place, values)
        for value in values:
            yield replace(self._dry(value), waiting=self.pins.waiting(value))

    def _dry(self, value: str) -> DateResult:
        begun = self.clock()
        try:
            history, dated = load_history(self.place, value), dated_partitions(self.place)
            history = adopted_by_command(self.place, history, dated, self.clock, self.pins, dry_run=True)
            planned = self._planner.plan(self.place, history, self.options, self.pins, self._turns, dry_run=True)
        except (SparkhavenError, OSError) as error:
            return DateResult(value, MergeOutcome.FAILED, MergePhase.PLAN, self.clock() - begun, error=error)
        plan, record = planned.plan, planned.record
        outcome = planned.outcome if plan is None else MergeOutcome.PLANNED
        result = _recorded(DateResult(value, outcome, MergePhase.PLAN, self.clock() - begun), record)
        if plan is None:
            return result
        names = tuple((destination.internal, 0) for destination in plan.destinations)
        names = names or ((DEFAULT_PARTITION, 0),)  # the merge creates the first partition
        return replace(_planned(result, plan, record), rows_out=plan.rows, destinations=names)

    def locked(self, values: Sequence[str], *, stop_on_error: bool = False) -> Iterator[DateResult]:
        """The results of all dates, under the table's lock; then what they replaced is removed if it is due."""
        self._require_volumes()
        with lock_table(self.place):
            self._turns = Turns(self.place, values)
            for result in self.run(values):
                clean_error = result.clean_error or self.clean_errors.get(result.value)
                yield replace(result, waiting=self.pins.waiting(result.value), clean_error=clean_error)
                if stop_on_error and result.error is not None:
                    return
            clean_after(self.place, self.clock, self.on_progress)

    def _require_volumes(self) -> None:
        fs, layout, namespace = self.place.fs, self.place.layout, self.place.table.namespace
        require_filled(fs, layout, namespace, writable_names(fs, layout, namespace))

    def run(self, values: Sequence[str]) -> Iterator[DateResult]:
        """All dates, in waves: each wave is published before the next begins."""
        done = 0
        while done < len(values):
            self.options = replace(self.given, workers=max(self.given.workers, self.executor.workers))
            wave = values[done : done + WAVE_DATES * self.options.workers]
            yield from self._wave(wave)
            done += len(wave)

    def _wave(self, values: Sequence[str]) -> Iterator[DateResult]:
        """Small dates in groups, one task each; large ones one after the other, over all workers.

        A date is large only if it is more than a worker's share of the wave, or does not fit its memory: the steps of a
        large date wait for each other.
        """
        taken: list[_Date] = []
        dated = dated_partitions(self.place)
        for value in values:
            begun = self.clock()
            try:
                self.pins.require(value)
                history = self._resume(load_history(self.place, value), begun)
                if isinstance(history, DateResult):
                    yield history
                    continue
                watch = PhaseWatch()
                with watch.phase(MergePhase.PLAN):
                    history = adopted_by_command(self.place, history, dated, self.clock, self.pins)
                    planned = self._planner.plan(
                        self.place, history, self.options, self.pins, self._turns, dry_run=False
                    )
            except (SparkhavenError, OSError) as error:
                yield self._failed(value, MergePhase.PLAN, begun, error)
                continue
            if planned.plan is None:
                resumed = self._resumed.get(value) if planned.outcome is MergeOutcome.NOTHING else None
                yield resumed or self._settle(planned, begun)
            else:
                record = replace(planned.record, time_ms=int(begun * 1000))
                taken.append(_Date(replace(planned, record=record), planned.plan, begun, watch.times))
        if not taken:
            return
        try:
            self._begin([date.planned for date in taken])
        except (SparkhavenError, OSError) as error:
            yield from (self._failed(date.value, MergePhase.PLAN, date.begun, error) for date in taken)
            return
        prepared: list[_Date] = []
        for date in taken:
            result = self._prepared(date)
            if isinstance(result, DateResult):
                yield result
            else:
                prepared.append(result)
        taken = prepared
        share = sum(date.plan.rows for date in taken) / self.options.workers
        taken = [date.fitted(share) for date in taken]
        yield from self._small([date for date in taken if not date.plan.large])
        for date in taken:
            if date.plan.large:
                yield from self._large(date)

    def _begin(self, dates: Sequence[PlannedMerge]) -> None:
        with self.place.fs.during("merge-plan"):
            for date in dates:
                last = date.history.last  # of a merge that was killed, which may have chosen other partitions
                killed = last.run.staging if last is not None and not last.phase.reached(MergePhase.CHECK) else []
                sweep(self.place.fs, {*date.record.run.staging, *killed})
            store_records(self.place, [date.record for date in dates])

    def _prepared(self, date: _Date) -> _Date | DateResult:
        """The date with what its plan asks for before its rows are written."""
        if date.planned.prepare is None:
            return date
        try:
            with self.place.fs.during("merge-prepare"):
                planned = date.planned.prepare(date.planned, date.plan)
        except (SparkhavenError, OSError) as error:
            with self._cleaning(date.value):
                sweep(self.place.fs, date.planned.record.run.staging)
            return self._failed(date.value, MergePhase.PLAN, date.begun, error)
        assert planned.plan is not None  # noqa: S101  it had one
        return _Date(planned, planned.plan, date.begun, date.times)

    def _small(self, taken: Sequence[_Date]) -> Iterator[DateResult]:
        groups = [[date] for date in sorted(taken, key=lambda date: -date.plan.rows) if date.plan.long]
        short = [date for date in taken if not date.plan.long]
        size = min(GROUP_DATES, -(-len(short) // (self.options.sizes.groups * self.options.workers))) or 1
        groups += [short[first : first + size] for first in range(0, len(short), size)]
        tasks = [[date.task for date in group] for group in groups]
        if len(tasks) == 1 and self.executor.threads:  # the workers have nothing else to do than parts of it
            results_of_groups = iter([run_group(self.place.fs, tasks[0], self.executor.run)])
        else:
            results_of_groups = self.executor.run(partial(run_group, self.place.fs), tasks)
        for group, results in zip(groups, results_of_groups, strict=True):
            yield from self._end(group, results)

    def _large(self, date: _Date) -> Iterator[DateResult]:
        result: Checked
        try:
            reporting = ProgressExecutor(self.executor, date.value, self.clock, self.on_progress)
            result = run_large(self.place, date.task, reporting.run, threads=self.executor.threads)
        except (SparkhavenError, OSError) as error:
            result = Checked(Failure(error), ())
        yield from self._end([date], [result])

    def _end(self, group: Sequence[_Date], results: Sequence[Checked]) -> Iterator[DateResult]:
        """Publishes the dates that passed their check and whose sources have not changed."""
        passed: list[tuple[_Date, MergeRecord]] = []
        times: dict[str, PhaseTimes] = {}
        for date, checked in zip(group, results, strict=True):
            result, times[date.value] = checked.result, (*date.times, *checked.times)
            if isinstance(result, Failure):
                with self._cleaning(date.value):
                    sweep(self.place.fs, [d.stage_root for d in date.plan.destinations])
                yield self._failed(date.value, MergePhase.STAGE, date.begun, result.error)
                continue
            try:
                still_pinned(date.plan, self.pins)
                date.planned.require_expected(result)
            except (SparkhavenError, OSError) as error:
                with self._cleaning(date.value):
                    sweep(self.place.fs, [d.stage_root for d in date.plan.destinations])
                yield self._failed(date.value, MergePhase.CHECK, date.begun, error)
                continue
            passed.append((date, result))
        closed: Sequence[Published | Failure]
        try:
            records = [date.planned.combine(record) for date, record in passed]
            store_records(self.place, records)
            closed = self.closing.close(
                [date.planned.history.after(record) for (date, _), record in zip(passed, records, strict=True)]
            )
        except (SparkhavenError, OSError) as error:
            closed = [Failure(error)] * len(passed)
        for (date, record), last in zip(passed, closed, strict=True):
            if isinstance(last, Failure):
                yield self._failed(date.value, MergePhase.CHECK, date.begun, last.error)
            else:
                merged = self._merged(date, record, last.record.phase)
                phases = (*times[date.value], *last.times)
                yield replace(merged, clean_error=last.clean_error, phase_ms=phases)

    def _merged(self, date: _Date, record: MergeRecord, phase: str) -> DateResult:
        result = DateResult(date.value, date.planned.outcome, phase, self.clock() - date.begun)
        rows = record.rows
        written = replace(_recorded(result, record), rows_out=rows, destinations=_written(record))
        return _planned(written, date.plan, record)

    def _settle(self, planned: PlannedMerge, begun: float) -> DateResult:
        """A date with nothing to write: already merged, or empty and allowed to be."""
        record = planned.record
        with self._cleaning(record.value):
            self.closing.retire_replaced(planned.history)
        seconds = self.clock() - begun
        return DateResult(record.value, planned.outcome, record.phase, seconds, generation=record.generation)

    @contextmanager
    def _cleaning(self, value: str) -> Iterator[None]:
        """Around a removal that no result depends on: what hinders it is kept, to be reported with the date."""
        try:
            with in_phase("clean"):
                yield
        except (SparkhavenError, OSError) as error:
            self.clean_errors[value] = error

    def _failed(self, value: str, phase: str, begun: float, error: SparkhavenError | OSError) -> DateResult:
        """The result for an error; ``phase``: the failed one, if the error does not say."""
        if isinstance(error, OSError):
            error.__dict__.setdefault("phase", phase)
        return DateResult(value, MergeOutcome.FAILED, phase_of(error) or phase, self.clock() - begun, error=error)

    def _resume(self, history: DateHistory, begun: float) -> DateResult | DateHistory:
        """Resumes a merge that was killed after its check; without one, the history that a merge goes on from."""
        record, value = history.last, history.value
        resumed = self.closing.resume(history, self.pins)
        if record is None or resumed is None:
            return history
        if isinstance(resumed, Failure):
            return self._failed(value, record.phase, begun, resumed.error)
        if record.complete:  # killed during clean
            if resumed.clean_error is not None:
                self.clean_errors[value] = resumed.clean_error
            return resumed.history
        rows = record.rows
        done = DateResult(
            value,
            MergeOutcome.RESUMED,
            resumed.record.phase,
            self.clock() - begun,
            rows_in=rows,
            rows_out=rows,
            destinations=_written(record),
            generation=record.generation,
            clean_error=resumed.clean_error,
            corrections=record.corrections,
            phase_ms=resumed.times,
        )
        if self._planner.ends_with(self.place, record):
            return done
        self._resumed[value] = done
        return resumed.history


def _recorded(result: DateResult, record: MergeRecord) -> DateResult:
    """With what the record says of a date."""
    sort, drops = record.run.sort, record.dropped_columns
    return replace(result, generation=record.generation, sort=sort, drops=drops, corrections=record.corrections)


def _planned(result: DateResult, plan: MergePlan, record: MergeRecord) -> DateResult:
    """With what the plan says of a date."""
    out = plan.left_out
    return replace(
        result,
        rows_in=plan.rows + out.rows,
        pieces=plan.ranges(),
        format=plan.format,
        distribution=record.run.distribution,
        left_out=out.rows,
        identical=out.identical,
        withdrawn=out.withdrawn,
    )


def _written(record: MergeRecord) -> tuple[tuple[str, int], ...]:
    return tuple((output.internal, output.rows) for output in record.outputs)
