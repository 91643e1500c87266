"""Limits of a table's ingest, and what is beyond them: lag, age of the newest epoch, rejected rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from .readiness import waiting
from .results import Result


@dataclass(frozen=True, slots=True)
class Limits:
    """None is no limit. ``age`` counts only while the market is open; ``rejected`` rows are those within ``window``."""

    lag: int | None
    age: timedelta | None
    rejected: int | None
    window: timedelta


@dataclass(frozen=True, slots=True)
class Measured:
    """One stream. ``age`` is None before its first epoch."""

    stream: str
    lag: int
    unit: str
    age: timedelta | None
    rejected: int

    def to_json(self) -> dict[str, object]:
        """For the log and the return value of the task."""
        age = None if self.age is None else round(self.age.total_seconds())
        return {"stream": self.stream, "lag": self.lag, "unit": self.unit, "age_s": age, "rejected": self.rejected}


def measured(stats: Result, epochs: Mapping[str, Result], window: timedelta, now: datetime) -> list[Measured]:
    """Every stream of a table. ``epochs``: the answer of ``epochs list`` by stream."""
    measures = []
    for line in stats.get("streams") or ():
        name = str(line["stream"])
        listed = [epoch for epoch in epochs[name]["epochs"] if epoch["kind"] == "commit" and epoch["live"]]
        newest = max((epoch["time_ms"] for epoch in listed), default=None)
        age = None if newest is None else timedelta(seconds=max(0.0, now.timestamp() - newest / 1000))
        since = (now - window).timestamp() * 1000
        rejected = sum((epoch.get("counts") or {}).get("rejected", 0) for epoch in listed if epoch["time_ms"] >= since)
        lag, unit = waiting(line)
        measures.append(Measured(name, lag, unit, age, rejected))
    return measures


def breaches(table: str, measures: list[Measured], limits: Limits, *, market_open: bool) -> list[str]:
    """A sentence for everything beyond its limit."""
    sentences = []
    for stream in measures:
        name = f"{table} {stream.stream}"
        if limits.lag is not None and stream.lag > limits.lag:
            sentences.append(f"{name}: {stream.lag:,} {stream.unit} wait at the source, limit {limits.lag:,}")
        if limits.age is not None and market_open and (stream.age is None or stream.age > limits.age):
            age = "there is no epoch" if stream.age is None else f"the newest epoch is {_text(stream.age)} old"
            sentences.append(f"{name}: {age}, limit {_text(limits.age)} while the market is open")
        if limits.rejected is not None and stream.rejected > limits.rejected:
            sentences.append(
                f"{name}: {stream.rejected:,} rows were rejected in {_text(limits.window)}, limit {limits.rejected:,}"
            )
    if limits.age is not None and market_open and not measures:
        sentences.append(f"{table}: no stream has run")
    return sentences


def slice_of(tables: list[str], nights: int, number: int) -> list[str]:
    """The tables of one of so many nights, evenly; each table has its turn once in ``nights`` consecutive numbers."""
    return [table for index, table in enumerate(sorted(tables)) if index % nights == number % nights]


def _text(value: timedelta) -> str:
    seconds = round(value.total_seconds())
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds} s"
