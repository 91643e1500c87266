"""Merges of dates of intraday into history: which dates, where they are merged, and the result of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypedDict

from sparkhaven.ingest.settings import parse_size
from sparkhaven.jobs.date_choice import DateChoice, intraday_dates, parse_choice, recorded_zone
from sparkhaven.jobs.session.spark_or_local import HistoryRun, choose_for_merge, is_submitted, rows_of
from sparkhaven.jobs.settings.keywords import Names
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.io.sync import SYNC_MODES, SyncMode
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import begin_of, range_of
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import Executor
from sparkhaven.writers.merge.plan.merge_plan import (
    DEFAULT_MEMORY,
    FORMATS,
    MAX_SUPPLEMENTS,
    PARALLEL_ROWS,
    Format,
    MergeOptions,
    chosen_format,
    parse_dedupe,
    schema_format,
)
from sparkhaven.writers.merge.plan.output_plan import coming_bytes, parse_distribution, parse_names
from sparkhaven.writers.merge.sources.sort_keys import parse_sort
from sparkhaven.writers.transfer.extended import follow

DEFAULT_FORMAT = "default"
MOST_DAYS = 36_600  # a hundred years


class MergeKeywords(TypedDict, total=False):
    """How rows become history: the keywords of ``Table.merge`` and ``merge_frame``, as the options of ``merge``.

    ``sort`` to ``upsert`` take names of columns, one or several. None, or nothing, is as the date's last merge.
    """

    sort: Names | None
    dedupe: Names | None
    keep: str | None
    order_by: str | None
    last_by: Names | None
    upsert: Names | None
    rewrite: bool
    allow_empty: bool
    format: str | None
    memory: str | int
    workers: int | None
    discard_corrections: bool
    max_supplements: int
    fill_missing: bool
    distribution: str | None
    only_partitions: Names | None
    sync_mode: str
    max_columns: int | None
    parallel_rows: int | None


def merge_options(schema: TableSchema, given: MergeKeywords) -> MergeOptions:
    """The options that the words stand for. SettingsError: one is none of its option, or names no column."""
    return MergeOptions(
        sort=parse_sort(joined(given.get("sort")), schema),
        dedupe=parse_dedupe(
            schema,
            dedupe=joined(given.get("dedupe")),
            keep=given.get("keep"),
            last_by=joined(given.get("last_by")),
            upsert=joined(given.get("upsert")),
            order_by=given.get("order_by"),
        ),
        rewrite=given.get("rewrite", False),
        discard_corrections=given.get("discard_corrections", False),
        allow_empty=given.get("allow_empty", False),
        fill_missing=given.get("fill_missing", False),
        memory=_bytes(given.get("memory", DEFAULT_MEMORY)),
        workers=given.get("workers") or 1,
        max_supplements=given.get("max_supplements", MAX_SUPPLEMENTS),
        format=_format(given.get("format"), schema),
        distribution=parse_distribution(given.get("distribution")),
        only=parse_names(joined(given.get("only_partitions"))),
        sync_mode=_sync_mode(given.get("sync_mode", SYNC_MODES[0])),
        max_columns=given.get("max_columns"),
        parallel_rows=given.get("parallel_rows") or PARALLEL_ROWS,
    )


def joined(given: Names | None) -> str | None:
    """Names as the command line has them."""
    return given if given is None or isinstance(given, str) else ",".join(given) or "none"


def _bytes(given: str | int) -> int:
    if isinstance(given, int):
        return given
    try:
        return parse_size(given)
    except ValueError:
        raise SettingsError("memory is not an amount of memory", expected='text like "1GiB"', found=given) from None


def _format(word: str | None, schema: TableSchema) -> Format | None:
    """None: that of the date's last merge."""
    if word is None:
        return None
    for format_ in FORMATS:
        if word.lower() == format_:
            return format_
    if word.lower() == DEFAULT_FORMAT:
        return schema_format(schema)
    raise SettingsError("unknown format", expected=", ".join((DEFAULT_FORMAT, *FORMATS)), found=repr(word))


def _sync_mode(word: str) -> SyncMode:
    for mode in SYNC_MODES:
        if word == mode:
            return mode
    raise SettingsError("unknown sync mode", expected=", ".join(SYNC_MODES), found=repr(word))


@dataclass(frozen=True, slots=True)
class MergeJob:
    """What a merge or import asks for, beside its rows. ``days``: those that are named one by one.

    ``roll``: called with the bytes that are to be written, before they are.
    """

    place: TablePlace
    schema: TableSchema
    options: MergeOptions
    run: HistoryRun
    days: Sequence[str] = ()
    roll: Callable[[int], object] = field(default=lambda _: None)

    @property
    def name(self) -> str:
        return str(self.place.table)

    @property
    def again(self) -> bool:
        """Whether merged dates are merged once more."""
        return self.options.rewrite or self.options.discard_corrections

    def merge(self, values: Sequence[str], executor: Executor) -> Iterator[DateResult]:
        merges = DateMerges(self.place, self.options, executor, time.time, self.run.note)
        if self.run.dry_run:
            return merges.planned(values)
        return merges.locked(values, stop_on_error=self.run.stop_on_error)

    def missing(self, merged: Collection[str]) -> list[str]:
        """The days that get an empty location, if that is asked for."""
        return days_without_history(self.place, self.days, merged) if self.options.fill_missing else []


def chosen_dates(job: MergeJob, choice: DateChoice, *, ask_zone: bool) -> tuple[list[str], TableNotFoundError | None]:
    """The dates to merge, and why there is none where that is no error: with ``allow_empty``, or named days.

    ``ask_zone``: dates end in the zone that the streams record. Raises what ``DateChoice.pick`` raises.
    """
    merged, states = all_values(job.place), newest_states(job.place)
    if ask_zone:
        choice = replace(choice, zone=recorded_zone(job.place.table, states))
    values: list[str] = []
    none: TableNotFoundError | None = None
    try:
        values = choice.pick({*intraday_dates(states), *(merged if job.again else [])}, time.time(), lambda: merged)
    except TableNotFoundError as error:
        if not job.options.allow_empty and not job.days:
            raise
        none = error
    missing = job.missing(values)
    return sorted({*values, *missing}), None if missing else none


def merged_dates(job: MergeJob, values: Sequence[str]) -> Iterator[DateResult]:
    """Merges dates of intraday, here or in Spark; a result as each is done. At the end the extended tree follows."""
    with ExitStack() as opened:
        executor, start_spark = job.run.executors(opened, job.place, "merge")
        if values:
            states = newest_states(job.place)
            copies = 1 if chosen_format(job.options, job.schema) == "deephaven" else 2
            job.roll(coming_bytes(job.place, states, values, rewrite=job.again, copies=copies))
            if not job.run.dry_run:
                merged = {*all_values(job.place)}
                again = [value for value in values if value in merged]
                rows = rows_of(states, set(values).difference(again))
                planned = DateMerges(job.place, job.options, executor, time.time).planned(again)
                parallel = job.options.parallel_rows
                chosen = choose_for_merge(job.run.where, is_submitted(os.environ), rows, planned, parallel)
                where = "in this process, without Spark" if chosen.local else "in Spark"
                job.run.note(f"merges {where}: {chosen.why}")
                executor = executor if chosen.local else start_spark()
            yield from job.merge(sorted(values), executor)
    if not job.run.dry_run:
        follow(job.place, job.run.note)


def merge_table(
    place: TablePlace, dates: Sequence[str] | None, closed: bool, given: MergeKeywords, run: HistoryRun
) -> Iterator[DateResult]:
    """Merges dates that are named, or all that are closed; a result as each is done.

    Raises what ``merge_options``, ``parse_choice`` and ``chosen_dates`` raise.
    """
    schema, choice = load_deployed(place), parse_choice(dates, closed)
    options = merge_options(schema, given)
    job = MergeJob(place, schema, options, run, asked_days(dates, fill=options.fill_missing, strict=False))
    values, _ = chosen_dates(job, choice, ask_zone=closed)
    return merged_dates(job, values)


def noted(results: Iterable[DateResult], done: set[str], stop_on_error: bool = False) -> Iterator[DateResult]:
    """The results, up to the first error with ``stop_on_error``; dates without one are added to ``done``."""
    for result in results:
        if result.error is None:
            done.add(result.value)
        yield result
        if stop_on_error and result.error is not None:
            return


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
