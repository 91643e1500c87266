"""Dates on their way from intraday to history: which step each waits for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from zoneinfo import ZoneInfo

from jobs.date_choice import CLOSED_GRACE_S, end_of, recorded_zone
from jobs.doctor.finding import CheckContext, Found, State, each, named
from store.epochs.files.load import StreamState
from store.errors import SettingsError
from store.layout import TableName
from writers.merge.status import table_status

UTC = ZoneInfo("UTC")


def dates(context: CheckContext) -> Iterator[Found]:
    """Per table the dates that are over and not merged, not validated, or not truncated, and merges that stopped."""
    for table in context.tables:
        yield from each(table, context.command("verify", table), partial(_of_table, context, table))


def _of_table(context: CheckContext, table: TableName) -> Iterator[Found]:
    found = table_status(context.fs, context.layout, table, context.now_s)
    zone = _zone(context, table)
    over = {one.value for one in found if _is_over(one.value, zone, context.now_s)}
    merged = [one for one in found if one.generation]
    steps: tuple[tuple[State, str, list[str], tuple[str, ...]], ...] = (
        (
            "note",
            "have a merge that runs or was stopped",
            [one.value for one in found if one.unfinished and one.unfinished != "record"],
            ("merge", "--date"),
        ),
        (
            "note",
            "are over and not merged",
            [one.value for one in found if one.unmerged and not one.generation and one.value in over],
            ("merge", "--date"),
        ),
        ("note", "have rows that came after their merge", [one.value for one in merged if one.unmerged], (
            "merge", "--rewrite", "--date")),
        ("wrong", "have failed their validation", [one.value for one in merged if one.validation == "failed"], (
            "validate", "--date")),
        ("wrong", "have a damaged validation", [one.value for one in merged if one.validation == "damaged"], (
            "validate", "--date")),
        (
            "note",
            "are merged and not validated",
            [one.value for one in merged if one.validation in ("missing", "stale") and one.untruncated],
            ("validate", "--date"),
        ),
        (
            "note",
            "are validated, and their intraday data not truncated",
            [one.value for one in merged if one.validation == "passed" and one.untruncated],
            ("truncate", "--date"),
        ),
    )  # fmt: skip
    waiting = False
    for state, what, values, (command, *options) in steps:
        if values:
            waiting = True
            text = f"{table}: {len(values):,} dates {what}: {named(values)}"
            yield state, text, context.command(command, table, *options, values[0])
    old = sum(len(one.replaced) for one in found)
    if old:
        yield "note", f"{table}: {old:,} replaced locations of history lie on disk", context.command("clean", table)
    if not waiting:
        yield "ok", f"{table}: {len(merged):,} dates are merged, none waits", None


def _zone(context: CheckContext, table: TableName) -> ZoneInfo:
    try:
        states = (state for of, _, state in context.streams() if of == table and isinstance(state, StreamState))
        return ZoneInfo(recorded_zone(table, states))
    except SettingsError:
        return UTC


def _is_over(value: str, zone: ZoneInfo, now_s: float) -> bool:
    """Whether a date has ended in its time zone (UTC where none is known); a value that is no date never ends."""
    end = end_of(value, zone)
    return end is not None and end + CLOSED_GRACE_S <= now_s
