"""The pipeline from intraday to history: the next step of each date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date as day
from datetime import timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, end_of, recorded_zone
from sparkhaven.jobs.monitor.dates import DateStatus, DateValidation
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, Found, each, told
from sparkhaven.jobs.monitor.texts import named
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.state.removed_locations import RemovalPhase
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, counted, counted_with
from sparkhaven.store.io.fs import stats_below
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.scan.selection import is_well_formed
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S

UTC = ZoneInfo("UTC")
LEAST_RUN, DAY_SIGNS = 3, len("2026-01-01")  # days, and signs of one
UNVALIDATED = (DateValidation.MISSING, DateValidation.STALE)
STEPS: tuple[tuple[str, str, str, Callable[[DateStatus, bool], object]], ...] = (
    ("N451", "have an unfinished merge, which runs or was interrupted", "merge --dates",
     lambda date, ended: date.unfinished and date.unfinished is not MergePhase.RECORD),
    ("N451", "are published, but files that their merge has left behind were not removed", "merge --dates",
     lambda date, ended: date.unfinished is MergePhase.RECORD),
    ("N451", "have ended and are not merged", "merge --dates",
     lambda date, ended: date.unmerged and not date.generation and ended),
    ("N451", "have rows that came after their merge", "merge --rewrite --dates",
     lambda date, ended: date.generation and date.unmerged),
    ("E452", "have failed their validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.FAILED),
    ("E452", "have a damaged validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.DAMAGED),
    ("N451", "are merged and not validated", "validate --dates",
     lambda date, ended: date.generation and date.validation in UNVALIDATED and date.untruncated),
    ("N451", "are validated, and their intraday data not truncated", "truncate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.PASSED and date.untruncated),
)  # fmt: skip
"""Steps that dates wait for: code, statement, command, and which dates do, by status and whether they have ended."""


def dates(context: CheckContext) -> Iterator[Found]:
    """By table the ended dates that are not merged, validated or truncated, and merges that are unfinished.

    Log tables may be left unmerged: they are looked at only by name.
    """
    for table in context.tables:
        if table.namespace == INTERNAL_NAMESPACE and table not in context.only:
            continue
        yield from each(table, context.command("verify", table), partial(_of_table, context, table))


def _of_table(context: CheckContext, table: TableName) -> Iterator[Found]:
    statuses, zone = context.dates(table), _zone(context, table)
    ended = {date.value for date in statuses if _has_ended(date.value, zone, context.now_s)}
    waiting = [
        (code, statement, words, [date.value for date in statuses if holds(date, date.value in ended)])
        for code, statement, words, holds in STEPS
    ]
    emptied, due_s = _emptied(context, table)
    due = [value for value in emptied if value not in due_s]
    waste = f"are truncated, and {counted(sum(emptied[value] for value in due), 'byte')} of their files not deleted"
    waiting.append(("N453", waste, "delete --dates", due))
    pending = False
    for code, statement, words, values in waiting:
        if values:
            pending = True
            command, *options = words.split()
            text = f"{table}: {counted_with(len(values), 'date', statement)} ({named(values)})"
            yield told(code, text, context.command(command, table, *options, *asked_dates(values)))
    if due_s:
        pending = True
        truncated = counted_with(len(due_s), "date", "are truncated")
        text = f"{table}: {truncated} ({named(list(due_s))}). Readers may still use the files"
        yield told("N453", f"{text}: `delete` removes them in {max(due_s.values()):,.0f} s")
    old = [location for date in statuses for location in date.replaced]
    if old:
        size = sum(location.size for location in old)
        text = f"{table}: {counted(len(old), 'replaced location')} of history still on disk, {counted(size, 'byte')}"
        yield told("N453", text, context.command("clean", table))
    if not pending:
        merged = sum(bool(date.generation) for date in statuses)
        yield f"{table}: {counted_with(merged, 'date', 'are merged')}, none is pending"


def asked_dates(values: list[str]) -> list[str]:
    """What follows ``--dates`` for all of some dates; a text that is no date has an option of its own."""
    if all(map(is_well_formed, values)):
        return [",".join(_runs(values))]
    first, *others = values
    return [first, *(word for value in others for word in ("--dates", value))]


def _runs(values: list[str]) -> Iterator[str]:
    """Three days or more that follow each other as one range: no table has another date between them."""
    run: list[str] = []
    for value in (*sorted(values), ""):
        if run and not _follows(value, run[-1]):
            yield from [f"{run[0]}..{run[-1]}"] if len(run) >= LEAST_RUN else run
            run = []
        run.append(value)


def _follows(value: str, before: str) -> bool:
    """Whether both are days, not hours of one, and the second of them comes next."""
    try:
        days = [day.fromisoformat(text) for text in (before, value)]
    except ValueError:
        return False
    return len(value) == len(before) == DAY_SIGNS and days[0] + timedelta(days=1) == days[1]


def _emptied(context: CheckContext, table: TableName) -> tuple[dict[str, int], dict[str, float]]:
    """By date the bytes of truncated locations; and the seconds until they may be deleted, where some are left."""
    bytes_of: dict[str, int] = {}
    due_s: dict[str, float] = {}
    for of, stream, state in context.streams():
        if of != table or isinstance(state, Exception):
            continue
        truncated = [item for item in sorted(state.locations.items()) if item[1].truncated]
        place = StreamPlace(context.fs, context.layout, table, stream)
        removals = [removal for _, removal in read_removals(place).entries] if truncated else []
        for key, location in truncated:
            sizes = stats_below(context.fs, context.layout.intraday_location(table, key))
            bytes_of[key.value] = bytes_of.get(key.value, 0) + sum(stat.size for _, stat in sizes)
            since = [r.time_ms / 1000 for r in removals if r.phase == RemovalPhase.TRUNCATE and r.means(location)]
            if (left := max(since, default=0.0) + GRACE_S - context.now_s) > 0:
                due_s[key.value] = max(left, due_s.get(key.value, 0.0))
    return dict(sorted(bytes_of.items())), dict(sorted(due_s.items()))


def _zone(context: CheckContext, table: TableName) -> ZoneInfo:
    try:
        states = (state for of, _, state in context.streams() if of == table and isinstance(state, StreamState))
        return ZoneInfo(recorded_zone(table, states))
    except SettingsError:
        return UTC


def _has_ended(date: str, zone: ZoneInfo, now_s: float) -> bool:
    """Whether a date has ended in its time zone, UTC where none is known; a value that is no date never ends."""
    end = end_of(date, zone)
    return end is not None and end + CLOSED_GRACE_S <= now_s
