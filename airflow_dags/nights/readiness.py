"""Whether a date may be merged: its market has closed, its rows are there, nothing waits at the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .results import Result

BLOCKING = ("logs", "locks", "file system", "free space", "clock", "root")  # checks of doctor that stop a merge


@dataclass(frozen=True, slots=True)
class Readiness:
    """``why`` says what is missing, or what was found. ``empty``: nothing waits anywhere, and there is no row."""

    ready: bool
    why: str
    intraday: int = 0
    history: int = 0
    empty: bool = False


def closed(closes: datetime, settle: timedelta, now: datetime) -> Readiness:
    """Whether the market has closed and the time in which late rows arrive has passed."""
    due = closes + settle
    return Readiness(now >= due, f"closes at {closes.isoformat()}, and is waited for until {due.isoformat()}")


def complete(stats: Result, date: str, *, streams: Sequence[str], min_rows: int) -> Readiness:
    """Whether ``stats`` shows the rows of a date, and nothing that waits at the sources of the named streams."""
    intraday, history = _rows(stats, date)
    if history and not intraday:
        return Readiness(True, f"{history:,} rows are in history, none is in intraday", 0, history)
    listed = {line.get("stream"): line for line in stats.get("streams") or ()}
    for stream in streams:
        if stream not in listed:
            return Readiness(False, f"stream {stream} has not run yet")
        amount, unit = waiting(listed[stream])
        if amount:
            return Readiness(False, f"{amount:,} {unit} wait at the source of stream {stream}")
    for stream, line in listed.items():
        if line.get("positionsUnknown"):
            return Readiness(False, f"the source positions of stream {stream} are unknown. It ingests nothing")
    rows = max(intraday, history)
    if rows < max(min_rows, 1):
        why = f"{rows:,} rows of {date} are there, expected {max(min_rows, 1):,} or more"
        return Readiness(False, why, intraday, history, not rows)
    return Readiness(True, f"{intraday:,} rows are in intraday, {history:,} in history", intraday, history)


def late_dates(status: Result, chosen: Sequence[str], is_late: Callable[[str], bool]) -> list[str]:
    """Merged dates with rows that ``merge --status`` shows as not merged, which ``is_late`` takes, and none chosen."""
    unfinished = [line for line in status.get("unfinished_dates") or () if line["generation"] and line["unmerged_rows"]]
    return sorted(line["date"] for line in unfinished if line["date"] not in chosen and is_late(line["date"]))


def removed(stats: Result, date: str) -> bool:
    """Whether ``stats`` shows that history has a date and intraday has no row of it."""
    intraday, history = _rows(stats, date)
    return history > 0 and not intraday


def waiting(stream: Result) -> tuple[int, str]:
    """How much waits at the source of a stream, and of what; 0 where the source was not asked."""
    for key, unit in (("waiting_messages", "messages"), ("waiting_files", "files")):
        if stream.get(key):
            return int(stream[key]), unit
    return 0, "messages or files"


def healthy(findings: Iterable[dict[str, Any]]) -> Readiness:
    """Whether ``doctor`` found nothing that stops a merge."""
    wrong = [finding for finding in findings if finding.get("state") == "wrong" and finding.get("check") in BLOCKING]
    words = "; ".join(f"{finding.get('what')} (next: {finding.get('next')})" for finding in wrong)
    return Readiness(not wrong, words or "nothing is wrong")


def _rows(stats: Result, date: str) -> tuple[int, int]:
    """Rows of a date in intraday and in history."""
    numbers: Result = next((line for line in stats.get("dates") or () if line.get("date") == date), {})
    return numbers.get("intraday", 0), numbers.get("history", 0)
