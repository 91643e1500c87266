"""A call of ``merge`` or ``import``: which dates, where they are merged, and what is said of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.jobs.cli.history.partitions import roll_first
from sparkhaven.jobs.date_choice import DateChoice, intraday_dates, recorded_zone
from sparkhaven.jobs.monitor.texts import counted
from sparkhaven.jobs.session.spark_or_local import (
    Where,
    choose_for_merge,
    is_submitted,
    rows_of,
    spark_executor,
)
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SettingsError, SparkhavenError, TableNotFoundError
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import begin_of, range_of
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.coming_bytes import coming_bytes
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.executor import Executor, LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.merge_pins import after_sync
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, chosen_format
from sparkhaven.writers.transfer.extended import follow

MOST_DAYS = 36_600  # a hundred years
SHOWN = 20
StartSpark = Callable[[], Executor]


@dataclass(frozen=True, slots=True)
class MergeJob:
    """What a call asks for, beside its rows. ``days``: those that are named one by one; ``strict``: each needs history.

    ``rolling``: how full a volume may be before its partitions are rolled, to ``roll_to``.
    """

    cli: CliContext
    place: TablePlace
    schema: TableSchema
    options: MergeOptions
    days: Sequence[str] = ()
    strict: bool = False
    rolling: float | None = None
    roll_to: Path | None = None
    where: Where = "auto"
    workers: int | None = None
    stop_on_error: bool = False
    dry_run: bool = False

    @property
    def name(self) -> str:
        return str(self.place.table)

    @property
    def again(self) -> bool:
        """Whether merged dates are merged once more."""
        return self.options.rewrite or self.options.discard_corrections

    def roll(self, coming: int = 0) -> None:
        """Rolls partitions that are full, or will be with ``coming`` bytes, where that is asked for."""
        if self.rolling is not None:
            roll_first(self.cli, self.place, self.rolling, self.roll_to, coming=coming, dry_run=self.dry_run)

    def executors(self, opened: ExitStack) -> tuple[Executor, StartSpark]:
        """This process, and what starts Spark, both until ``opened`` ends."""
        count = self.workers or local_workers()
        here = LocalExecutor(count if self.where == "local" else min(count, local_workers()))
        start = partial(spark_executor, opened, self.place, "sparkhaven merge", self.workers, verbose=self.cli.verbose)
        return opened.enter_context(here), start

    def merge(self, values: Sequence[str], executor: Executor) -> Iterator[DateResult]:
        return merge_dates(
            self.place,
            values,
            self.options,
            executor=executor,
            clock=time.time,
            dry_run=self.dry_run,
            stop_on_error=self.stop_on_error,
            on_progress=self.cli.note,
        )

    def finish(self, values: Collection[str], executor: Executor, done: set[str], code: int = EXIT_DONE) -> int:
        """Merges the dates, fills days without history, and says which days have none; the exit code."""
        if values:
            code = show_dates(self, noted(self.merge(sorted(values), executor), done)) or code
        if self.strict:
            missing = days_without_history(self.place, self.days, done if self.dry_run else ())
            code = _report_missing(self, missing) or code
        if not self.dry_run:
            follow(self.place, self.cli.note)
        return code

    def missing(self, merged: Collection[str]) -> list[str]:
        """The days that get an empty location, if that is asked for."""
        return days_without_history(self.place, self.days, merged) if self.options.fill_missing else []


def merge_intraday(job: MergeJob, choice: DateChoice, *, ask_zone: bool) -> int:
    """Merges dates of intraday; the exit code. ``ask_zone``: dates end in the zone that the streams record."""
    merged, states = all_values(job.place), newest_states(job.place)
    values: list[str] = []
    try:
        values = _values(job, choice, states, merged, ask_zone=ask_zone)
    except TableNotFoundError as error:
        if not job.options.allow_empty and not job.days:
            raise
        if not job.missing(()):
            _show_nothing(job, error)
    values = sorted({*values, *job.missing(values)})
    with ExitStack() as opened:
        executor, start_spark = job.executors(opened)
        if values:
            copies = 1 if chosen_format(job.options, job.schema) == "deephaven" else 2
            job.roll(coming_bytes(job.place, states, values, rewrite=job.again, copies=copies))
        if values and not job.dry_run:
            again = [value for value in values if value in merged]
            rows = rows_of(states, set(values).difference(again))
            planned = merge_dates(job.place, again, job.options, executor=executor, clock=time.time, dry_run=True)
            parallel = job.options.parallel_rows
            chosen = choose_for_merge(job.where, is_submitted(os.environ), rows, planned, parallel)
            job.cli.note(f"merges {'in this process, without Spark' if chosen.local else 'in Spark'}: {chosen.why}")
            executor = executor if chosen.local else start_spark()
        return job.finish(values, executor, set())


def _values(
    job: MergeJob, choice: DateChoice, states: list[StreamState], merged: list[str], *, ask_zone: bool
) -> list[str]:
    if ask_zone:
        choice = replace(choice, zone=recorded_zone(job.place.table, states))
    again = merged if job.again else []
    return choice.pick({*intraday_dates(states), *again}, time.time(), lambda: merged)


def _show_nothing(job: MergeJob, error: TableNotFoundError) -> None:
    why = f"{error.what}: expected {error.expected}, found {error.found}"
    job.cli.note(f"0 dates merged ({why})")
    nothing = {"table": job.name, "outcome": MergeOutcome.NOTHING, "dates": 0, "message": why, "dry_run": job.dry_run}
    job.cli.result(nothing, "nothing to merge")


def noted(results: Iterable[DateResult], done: set[str], stop_on_error: bool = False) -> Iterator[DateResult]:
    """The results, up to the first error with ``stop_on_error``; dates without one are added to ``done``."""
    for result in results:
        if result.error is None:
            done.add(result.value)
        yield result
        if stop_on_error and result.error is not None:
            return


def show_dates(
    job: MergeJob, results: Iterable[DateResult], more: Callable[[DateResult], Mapping[str, object]] = lambda _: {}
) -> int:
    """Prints one result a date as it comes, with ``more`` members; the exit code is that of the first error."""
    cli, name, dry_run = job.cli, job.name, job.dry_run
    code, rows, seconds, dates = EXIT_DONE, 0, 0.0, 0
    begun = time.monotonic()
    for merged in results:
        rows += merged.rows_in if dry_run else merged.rows_out
        dates, seconds = dates + 1, time.monotonic() - begun
        record = {
            "table": name,
            "date": merged.value,
            "outcome": merged.outcome,
            "phase": merged.phase,
            "rows_in": merged.rows_in,
            "rows_out": merged.rows_out,
            "destinations": {internal: None if dry_run else n for internal, n in merged.destinations},
            "generation": merged.generation,
            "sort": list(merged.sort),
            "format": merged.format,
            "distribution": merged.distribution,
            "columns_dropped": dict(merged.drops),
            "columns_corrected": sorted({correction.name for correction in merged.corrections}),
            "rows_dropped": merged.left_out,
            "rows_identical": merged.identical,
            "rows_withdrawn": merged.withdrawn,
            "waiting_rows": merged.waiting,
            "intraday_rows": merged.intraday,
            "seconds": round(merged.seconds, 3),
            "phase_ms": dict(merged.phase_ms),
            "dry_run": dry_run,
            **more(merged),
        }
        if merged.error is not None:
            failed = as_ours(merged.error)
            code = code or failed.exit_code
            cli.note(f"{merged.value}: {failed}")
            record["error"] = error_json(failed)
        if merged.clean_error is not None:
            record["clean_error"] = error_json(as_ours(merged.clean_error))
        cli.result(record, f"{merged.value}: {_sentence(merged)}")
        if merged.clean_error is not None:
            cli.note(_left_behind(name, merged, as_ours(merged.clean_error)))
        if merged.waiting and merged.error is None:
            left_out = f"{merged.waiting:,} rows are not synced to disk yet and are left out"
            cli.note(f"{merged.value}: {left_out}. To do: {after_sync(job.place.table)}, then merge again")
        if merged.intraday and merged.error is None:
            stay = "stay there: reads show them too, and the next merge adds them"
            cli.note(f"{merged.value}: {merged.intraday:,} rows of this date are intraday, not merged, and {stay}")
    planned = " to merge (dry run)" if dry_run else ""
    cli.note(f"{counted(dates, 'date')}, {counted(rows, 'row')}{planned} in {seconds:.1f} s")
    return code


def _left_behind(name: str, merged: DateResult, error: SparkhavenError) -> str:
    state = "the merge failed, and files of it" if merged.error is not None else "is published, but files of a merge"
    return (
        f"{merged.value}: {state} could not be removed ({error}). No row is affected. End the cause, then"
        f" `sparkhaven merge {name} --dates {merged.value}` removes them"
    )


def _sentence(merged: DateResult) -> str:
    if merged.outcome in (MergeOutcome.NOTHING, MergeOutcome.UNCHANGED):
        return f"{'merged' if merged.outcome is MergeOutcome.NOTHING else 'imported'} before, nothing new"
    if merged.outcome in (MergeOutcome.EMPTY, MergeOutcome.FAILED):
        return merged.outcome
    partitions = _partitions(merged.destinations)
    if merged.outcome is MergeOutcome.FILLED:
        return f"filled: an empty location in {partitions}"
    rows = counted(merged.rows_in if merged.outcome is MergeOutcome.PLANNED else merged.rows_out, "row")
    return _VERBS[merged.outcome].format(rows) + (f" into {partitions}" if partitions else "") + _details(merged)


_VERBS = {
    MergeOutcome.PLANNED: "would merge {}",
    MergeOutcome.MERGED: "merged {}",
    MergeOutcome.SUPPLEMENT: "merged {} that came later",
    MergeOutcome.REWRITTEN: "merged {} again",
    MergeOutcome.IMPORTED: "imported {}",
    MergeOutcome.REPLACED: "imported {} in place of history",
    MergeOutcome.UPSERTED: "imported, {} together with history",
    MergeOutcome.RESUMED: "finished an interrupted merge of {}",
}


def _partitions(destinations: Sequence[tuple[str, int]]) -> str:
    """Where rows went; with their numbers if that is several partitions."""
    if len(destinations) == 1:
        return f"partition {destinations[0][0]}"
    return ", ".join(f"partition {name} ({rows:,})" if rows else f"partition {name}" for name, rows in destinations)


def _details(merged: DateResult) -> str:
    parts = [f"sorted by {', '.join(merged.sort)}"] if merged.sort else []
    if merged.format in ("parquet", "both"):
        parts.append("as Parquet" if merged.format == "parquet" else "as column files and Parquet")
    if merged.withdrawn:
        parts.append(f"without {counted(merged.withdrawn, 'withdrawn row')}")
    if duplicates := merged.left_out - merged.withdrawn:
        equal = f"{merged.identical:,} of them equal to a kept row"
        parts.append(f"without {counted(duplicates, 'duplicate')} ({equal})")
    if merged.corrections:
        names = ", ".join(sorted({correction.name for correction in merged.corrections}))
        parts.append(f"{names} as rewrite-column has changed {'it' if ',' not in names else 'them'}")
    if merged.drops:
        dropped = ", ".join(f"{name} ({counted(rows, 'row')} with values)" for name, rows in merged.drops)
        parts.append(f"without {dropped}")
    return "".join(f", {part}" for part in parts)


def asked_days(dates: Sequence[str] | None, *, fill: bool, strict: bool) -> list[str]:
    """The dates that are named, and each calendar day of their ranges, spelled as the ends are; none without an option.

    SettingsError: no dates are named, or a range is not from day to day.
    """
    if not fill and not strict:
        return []
    option = "--fill-missing" if fill else "--strict"
    if not dates:
        raise SettingsError(f"no days are named for {option}", expected="--dates D, or A..B", found="no --dates")
    days: set[str] = set()
    for text in dates:
        ends = range_of(text)
        days.update([text] if ends is None else _days(*ends, option))
    return sorted(days)


def _days(first: str, last: str, option: str) -> list[str]:
    begin, end = begin_of(first), begin_of(last)
    compact = "-" not in first
    length = len("20260102" if compact else "2026-01-02")
    if begin is None or end is None or {len(first), len(last)} != {length} or compact != ("-" not in last):
        raise SettingsError(
            f"the range of {option} is not from day to day",
            expected="A..B from day to day, like 2026-01-01..2026-01-31",
            found=f"{first}..{last}",
        )
    count = (end[0] - begin[0]).days + 1
    if count > MOST_DAYS:
        raise SettingsError(
            f"the range of {option} has too many days", expected=f"at most {MOST_DAYS:,}", found=f"{count:,}"
        )
    form = "%Y%m%d" if compact else "%Y-%m-%d"
    return [(begin[0] + timedelta(days=number)).strftime(form) for number in range(count)]


def days_without_history(place: TablePlace, days: Sequence[str], planned: Collection[str] = ()) -> list[str]:
    """Those of the days of which no date, or hour, was merged. A date that was dropped by command is not missing.

    ``planned``: dates that are about to be merged.
    """
    if not days:
        return []
    values = [value for value in all_values(place) if newest(place, value) is not None]
    known = {*values, *planned}
    begins = {begin[0].date() for value in known if (begin := begin_of(value)) is not None}
    return [d for d in days if d not in known and ((begin := begin_of(d)) is None or begin[0].date() not in begins)]


def _report_missing(job: MergeJob, missing: Sequence[str]) -> int:
    """Says which days have no history, and returns the exit code."""
    if not missing:
        return EXIT_DONE
    more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
    text = f"{len(missing):,} days without history: {', '.join(missing[:SHOWN])}{more}"
    record = {"table": job.name, "outcome": "missing", "dates": list(missing), "dry_run": job.dry_run}
    job.cli.result(record, text)
    job.cli.note("merge with --fill-missing writes an empty location for each of them")
    return EXIT_BAD_DATA
