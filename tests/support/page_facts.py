"""Facts of operations pages, made by hand."""

from __future__ import annotations

from typing import Any

from sparkhaven.jobs.doctor.finding import DoctorFinding
from sparkhaven.jobs.page.facts import (
    TIERS,
    Cell,
    EpochFacts,
    ErrorFacts,
    PageFacts,
    QuarantineFacts,
    StreamFacts,
    SymbolFacts,
    TableFacts,
    VolumeFacts,
)

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


def epochs(count: int, *, every_ms: int = MINUTE, until_ms: int = NOW_MS) -> tuple[EpochFacts, ...]:
    """Commits of 10, 11, ... rows, the last one at ``until_ms``."""
    start = until_ms - (count - 1) * every_ms
    return tuple(
        EpochFacts(n + 1, "commit", True, start + n * every_ms, 10 + n, every_ms / 1000 if n else None, 2.5)
        for n in range(count)
    )


def small_table(name: str = "NS.T", **changes: Any) -> TableFacts:
    """A table with something in every section."""
    cells = [
        Cell(f"2026-09-{day:02}", source, 100 * day + number, TIERS[(day + number) % 4])
        for day in range(1, 6)
        for number, source in enumerate(("EWR", "JFK"))
    ]
    found: dict[str, Any] = {
        "streams": (StreamFacts("s", 30, 7, "fsync", (*epochs(30),), "3 files", (LATE,)),),
        "cells": tuple(cells),
        "symbols": (SymbolFacts("Sym", tuple((f"2026-09-{day:02}", 10 * day, 5000) for day in range(1, 6))),),
        "volumes": (VolumeFacts("intraday", 5_000_000, 1_000), VolumeFacts("storage partition 0", 9_000_000, 0)),
        "quarantine": (QuarantineFacts("s", {"overflow": 4, "not-a-number": 2}),),
        "errors": (
            ErrorFacts(NOW_MS - MINUTE, f"{name} s", "row rejected: overflow"),
            ErrorFacts(None, name, "damage"),
        ),
    }
    return TableFacts(name, **{**found, **changes})


def facts(*tables: TableFacts, **changes: Any) -> PageFacts:
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
