"""The pipeline from intraday to history: the next step of each date."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from zoneinfo import ZoneInfo

from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, end_of, recorded_zone
from sparkhaven.jobs.doctor.finding import CheckContext, Found, State, each, named
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.walking import stats_below
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.writers.merge.unfinished_work import DateStatus, DateValidation

UTC = ZoneInfo("UTC")
UNVALIDATED = (DateValidation.MISSING, DateValidation.STALE)
STEPS: tuple[tuple[State, str, str, Callable[[DateStatus, bool], object]], ...] = (
    ("note", "have an unfinished merge, which runs or was interrupted", "merge --dates",
     lambda date, ended: date.unfinished and date.unfinished is not MergePhase.RECORD),
    ("note", "are published, but files that their merge has left behind were not removed", "merge --dates",
     lambda date, ended: date.unfinished is MergePhase.RECORD),
    ("note", "have ended and are not merged", "merge --dates",
     lambda date, ended: date.unmerged and not date.generation and ended),
    ("note", "have rows that came after their merge", "merge --rewrite --dates",
     lambda date, ended: date.generation and date.unmerged),
    ("wrong", "have failed their validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.FAILED),
    ("wrong", "have a damaged validation", "validate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.DAMAGED),
    ("note", "are merged and not validated", "validate --dates",
     lambda date, ended: date.generation and date.validation in UNVALIDATED and date.untruncated),
    ("note", "are validated, and their intraday data not truncated", "truncate --dates",
     lambda date, ended: date.generation and date.validation is DateValidation.PASSED and date.untruncated),
)  # fmt: skip
"""Steps that dates wait for: state, statement, command, and which dates do, by status and whether they have ended."""


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
        (state, statement, words, [date.value for date in statuses if holds(date, date.value in ended)])
        for state, statement, words, holds in STEPS
    ]
    emptied = _emptied(context, table)
    waste = f"are truncated, and {sum(emptied.values()):,} bytes of their files not deleted"
    waiting.append(("note", waste, "delete --dates", list(emptied)))
    pending = False
    for state, statement, words, values in waiting:
        if values:
            pending = True
            command, *options = words.split()
            text = f"{table}: {len(values):,} dates {statement} ({named(values)})"
            yield state, text, context.command(command, table, *options, values[0])
    old = [location for date in statuses for location in date.replaced]
    if old:
        size = sum(location.size for location in old)
        text = f"{table}: {len(old):,} replaced locations of history are still on disk, {size:,} bytes"
        yield "note", text, context.command("clean", table)
    if not pending:
        merged = sum(bool(date.generation) for date in statuses)
        yield "ok", f"{table}: {merged:,} dates are merged, none is pending", None


def _emptied(context: CheckContext, table: TableName) -> dict[str, int]:
    bytes_of: dict[str, int] = {}
    for of, _, state in context.streams():
        if of != table or isinstance(state, Exception):
            continue
        for key, location in sorted(state.locations.items()):
            if location.truncated:
                sizes = stats_below(context.fs, context.layout.intraday_location(table, key))
                bytes_of[key.value] = bytes_of.get(key.value, 0) + sum(stat.size for _, stat in sizes)
    return dict(sorted(bytes_of.items()))


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
