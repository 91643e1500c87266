"""Facts of operations pages, made by hand."""

from __future__ import annotations

from typing import Any

from sparkhaven.jobs.monitor.dates import TIERS, Cell
from sparkhaven.jobs.monitor.doctor.finding import DoctorFinding
from sparkhaven.jobs.monitor.page.summary import ErrorFacts, PageFacts, PageTable, PageWaiting
from sparkhaven.jobs.monitor.rejected import PendingRows
from sparkhaven.jobs.monitor.storage import VolumeUse
from sparkhaven.jobs.monitor.streams import StreamFacts
from sparkhaven.jobs.monitor.symbols import SymbolSizes
from sparkhaven.store.epochs.reading.stream_state import EpochEntry

NOW_MS = 1_790_000_000_000
MINUTE = 60_000
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onfocus='alert(3)",
    "</style></title><svg onload=alert(4)>",
    "<!-- ]]> &lt;b&gt; &#60;",
    "javascript:alert(5)",
    "\u202etxt\x00\x1b[2J\ud800",
    "{{7*7}} ${7*7} var(--text); background: url(//evil.example/x)",
)

LATE = f"1 new files are older than max_file_age (7 d) and are not ingested: /feed/{'late-' * 40}.json. Touch it"


def epoch(number: int, time_ms: int, rows: int, **changes: Any) -> EpochEntry:
    """A live commit, but for the changes; ``rejected``: rows by reason."""
    counts = {f"rejected.{reason}": count for reason, count in changes.pop("rejected", {}).items()}
    found: dict[str, Any] = {"kind": "commit", "live": True, "counts": counts, **changes}
    kind, live = found.pop("kind"), found.pop("live")
    return EpochEntry(number, kind, 1, time_ms, "query", number, rows, 1, 1, None, live, **found)


def epochs(count: int, *, every_ms: int = MINUTE, until_ms: int = NOW_MS) -> tuple[EpochEntry, ...]:
    """Commits of 10, 11, ... rows, the last one at ``until_ms``."""
    start = until_ms - (count - 1) * every_ms
    times = [start + n * every_ms for n in range(count)]
    return tuple(
        epoch(
            n + 1,
            time_ms,
            10 + n,
            seconds=every_ms / 1000 if n else None,
            oldest_ns=time_ms * 10**6 - 2_500_000_000,
        )
        for n, time_ms in enumerate(times)
    )


def stream(name: str, number: int, floor: int, durability: str, history: tuple[EpochEntry, ...] = ()) -> StreamFacts:
    return StreamFacts("NS.T", name, number, floor, durability=durability, history=history)


def small_table(name: str = "NS.T", **changes: Any) -> PageTable:
    """A table with something in every section."""
    cells = [
        Cell(f"2026-09-{day:02}", source, 100 * day + number, TIERS[(day + number) % 4])
        for day in range(1, 6)
        for number, source in enumerate(("EWR", "JFK"))
    ]
    found: dict[str, Any] = {
        "streams": (stream("s", 30, 7, "fsync", epochs(30)),),
        "waiting": {"s": PageWaiting("3 files", (LATE,))},
        "cells": tuple(cells),
        "symbols": (SymbolSizes("Sym", tuple((f"2026-09-{day:02}", 10 * day, 5000) for day in range(1, 6))),),
        "volumes": {"intraday": VolumeUse(5_000_000, 1_000), "0": VolumeUse(9_000_000, 0)},
        "rejected": {"s": PendingRows("s", {"overflow": 4, "not-a-number": 2})},
        "errors": (
            ErrorFacts(NOW_MS - MINUTE, f"{name} s", "row rejected: overflow"),
            ErrorFacts(None, name, "damage"),
        ),
    }
    return PageTable(name, **{**found, **changes})


def facts(*tables: PageTable, **changes: Any) -> PageFacts:
    """A page of these tables, with one finding of each state."""
    found: dict[str, Any] = {
        "root": "/db",
        "command": "sparkhaven --root /db",
        "now_ms": NOW_MS,
        "hours": 24.0,
        "tables": tables,
        "findings": (
            DoctorFinding("jdk", "ok", "JDK 17"),
            DoctorFinding(
                "dates", "note", "2 dates are not merged", "sparkhaven --root /db merge NS.T --dates 2026-09-01"
            ),
            DoctorFinding("logs", "wrong", "a log is damaged", "restore it"),
        ),
    }
    return PageFacts(**{**found, **changes})
