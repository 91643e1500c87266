"""The pipeline from intraday to history: the next step of each date."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from zoneinfo import ZoneInfo

from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, end_of, recorded_zone
from sparkhaven.jobs.doctor.finding import CheckContext, Found, State, each, named
from sparkhaven.store.epochs.reading.stream_state import StreamState
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.walking import stats_below
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName

UTC = ZoneInfo("UTC")


def dates(context: CheckContext) -> Iterator[Found]:
    """By table the ended dates that are not merged, validated or truncated, and merges that are unfinished.

    Log tables may be left unmerged: they are looked at only by name.
    """
    for table in context.tables:
        if table.namespace == INTERNAL_NAMESPACE and table not in context.only:
            continue
        yield from each(table, context.command("verify", table), partial(_of_table, context, table))


def _of_table(context: CheckContext, table: TableName) -> Iterator[Found]:
    found = context.dates(table)
    zone = _zone(context, table)
    ended = {one.value for one in found if _has_ended(one.value, zone, context.now_s)}
    merged = [one for one in found if one.generation]
    steps: tuple[tuple[State, str, list[str], tuple[str, ...]], ...] = (
        (
            "note",
            "have an unfinished merge, which runs or was interrupted",
            [one.value for one in found if one.unfinished and one.unfinished != "record"],
            ("merge", "--dates"),
        ),
        (
            "note",
            "are published, but files that their merge has left behind were not removed",
            [one.value for one in found if one.unfinished == "record"],
            ("merge", "--dates"),
        ),
        (
            "note",
            "have ended and are not merged",
            [one.value for one in found if one.unmerged and not one.generation and one.value in ended],
            ("merge", "--dates"),
        ),
        ("note", "have rows that came after their merge", [one.value for one in merged if one.unmerged], (
            "merge", "--rewrite", "--dates")),
        ("wrong", "have failed their validation", [one.value for one in merged if one.validation == "failed"], (
            "validate", "--dates")),
        ("wrong", "have a damaged validation", [one.value for one in merged if one.validation == "damaged"], (
            "validate", "--dates")),
        (
            "note",
            "are merged and not validated",
            [one.value for one in merged if one.validation in ("missing", "stale") and one.untruncated],
            ("validate", "--dates"),
        ),
        (
            "note",
            "are validated, and their intraday data not truncated",
            [one.value for one in merged if one.validation == "passed" and one.untruncated],
            ("truncate", "--dates"),
        ),
    )  # fmt: skip
    emptied = _emptied(context, table)
    waste = f"are truncated, and {sum(emptied.values()):,} bytes of their files not deleted"
    steps += (("note", waste, list(emptied), ("delete", "--dates")),)
    pending = False
    for state, what, values, (command, *options) in steps:
        if values:
            pending = True
            text = f"{table}: {len(values):,} dates {what} ({named(values)})"
            yield state, text, context.command(command, table, *options, values[0])
    old = [location for one in found for location in one.replaced]
    if old:
        size = sum(location.size for location in old)
        yield (
            "note",
            f"{table}: {len(old):,} replaced locations of history are still on disk, {size:,} bytes",
            context.command("clean", table),
        )
    if not pending:
        yield "ok", f"{table}: {len(merged):,} dates are merged, none is pending", None


def _emptied(context: CheckContext, table: TableName) -> dict[str, int]:
    """The dates with truncated locations, and the bytes of files that are left of them."""
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


def _has_ended(value: str, zone: ZoneInfo, now_s: float) -> bool:
    """Whether a date has ended in its time zone, UTC where none is known; a value that is no date never ends."""
    end = end_of(value, zone)
    return end is not None and end + CLOSED_GRACE_S <= now_s
