"""Rewrites of columns in tests, and the same by plain Python over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import Executor, LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.rewrites.rewrite_plan import ColumnChanges, RewritePlanner, Value
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import FS

Row = Mapping[str, Any]


def rewrite(
    layout: Layout,
    values: Mapping[str, Value],
    *,
    fs: Fs = FS,
    again: bool = False,
    executor: Executor | None = None,
    **options: Any,
) -> DateResult:
    """Sets columns of the date; raises the error that it ends with."""
    place = TablePlace(fs, layout, TABLE)
    executor = executor or LocalExecutor(options.get("workers", 1))
    planner = RewritePlanner(ColumnChanges(set=values), again=again)
    merges = DateMerges(place, MergeOptions(**options), executor, lambda: 1_700_000_000.0, planner=planner)
    (result,) = merges.locked([DAY])
    if result.error is not None:
        raise result.error
    return result


def _sum(*parts: Any) -> Any:
    return None if None in parts else sum(parts)


def _or(one: bool | None, other: bool) -> bool | None:
    return True if one or other else one


def _joined(*texts: str | None) -> str | None:
    return None if None in texts else "".join(text or "" for text in texts)


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


RANGES = {"B": 2**7 - 1, "S": 2**15 - 1, "L": 2**63 - 1}
"""The largest values of the columns that a setting computes from other numbers; the least value is their null."""

SETTINGS: list[tuple[str, str, Callable[[Row], Any]]] = [
    (
        "Sym",
        "CASE WHEN Flag THEN upper(Sym) ELSE coalesce(Venue, 'v') END",
        lambda r: (r["Sym"] and r["Sym"].upper()) if r["Flag"] else _first(r["Venue"], "v"),
    ),
    ("Sym", "CASE WHEN S IN (1, 2) THEN NULL ELSE Sym END", lambda r: None if r["S"] in (1, 2) else r["Sym"]),
    ("Venue", "Sym || '-' || Note", lambda r: _joined(r["Sym"], "-", r["Note"])),
    (
        "Note",
        "CASE WHEN Note IS NULL THEN 'none' ELSE replace(Note, 'a', '') END",
        lambda r: _first(r["Note"], "none").replace("a", ""),
    ),
    (
        "Flag",
        "L > 0 OR D IS NULL",
        lambda r: _or(None if r["L"] is None else r["L"] > 0, r["D"] is None),
    ),
    ("B", "abs(S) * 2 - 3", lambda r: _sum(None if r["S"] is None else abs(r["S"]) * 2, -3)),
    (  # half of a surrogate pair is no text
        "C",
        "CASE WHEN C IS NULL OR C BETWEEN 55296 AND 57343 THEN 'x' ELSE chr(C) END",
        lambda r: ord("x") if r["C"] is None or 0xD800 <= r["C"] <= 0xDFFF else r["C"],
    ),
    (
        "S",
        "CASE WHEN S >= L THEN L ELSE S END",
        lambda r: r["L"] if None not in (r["S"], r["L"]) and r["S"] >= r["L"] else r["S"],
    ),
    ("I", "null", lambda r: None),
    (
        "L",
        "coalesce(S, 0)::BIGINT * 1000 - L",
        lambda r: _sum((r["S"] or 0) * 1000, None if r["L"] is None else -r["L"]),
    ),
    ("F", "S / 4", lambda r: None if r["S"] is None else r["S"] / 4),
    (
        "D",
        "CASE WHEN isnan(D) THEN -0.0::DOUBLE ELSE D END",
        lambda r: -0.0 if r["D"] is not None and r["D"] != r["D"] else r["D"],
    ),
    ("T", "make_timestamp_ns(epoch_ns(T) + 86400000000000)", lambda r: _sum(r["T"], 86_400_000_000_000)),
]


def fits(row: Row) -> bool:
    """Whether the columns have room for the values of a row."""
    return all(abs(row[name] or 0) <= most for name, most in RANGES.items())
