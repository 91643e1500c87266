"""Real flights of some dates in intraday, written by the codecs and the commit log alone: no feed, no JVM."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from demo.feed import NULL, TEXTS, rows
from sparkhaven.store.types.model import Column
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

SCHEMA = REPOSITORY / "conf" / "schemas" / "Nyc13.Flight.schema"
ORIGINS = ("EWR", "JFK", "LGA")
STREAM = "flights"
WRITTEN_S = 1_357_300_000.0  # 2013-01-04, in seconds since the epoch


def write_flights(
    root: Path, dates: dict[str, tuple[str, ...]], *, name: str = "Flight", twice: str = "", batches: int = 0
) -> dict[str, int]:
    """Fills ``Nyc13.<name>`` with the flights of these first dates of 2013 from these airports; rows by date.

    ``twice``: a date that comes two times. ``batches``: those that earlier calls have committed.
    """
    schema = SCHEMA.read_text(encoding="utf-8").replace('name="Flight"', f'name="{name}"', 1)
    table = SmallTable(root, schema, batches=batches)
    table.now = WRITTEN_S
    until = max(dates)
    days: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in takewhile(lambda row: day_of(row) <= until, rows()):
        days.setdefault((day_of(row), row["origin"]), []).append(row)
    written: dict[str, int] = {}
    for (day, origin), flights in sorted(days.items()):
        if origin in dates.get(day, ()):
            columns = {column.name: column_values(column, flights) for column in table.schema.stored}
            for _ in range(2 if day == twice else 1):
                table.add(origin, day, columns, stream=STREAM)
                written[day] = written.get(day, 0) + len(flights)
    table.log(STREAM).close()
    return written


def day_of(row: dict[str, str]) -> str:
    """The date of a flight."""
    return f"{int(row['year'])}-{int(row['month']):02d}-{int(row['day']):02d}"


def column_values(column: Column, flights: Iterable[dict[str, str]]) -> list[Any]:
    """The values of a column of flights."""
    return [_value(column.name, row[column.name]) for row in flights]


def _value(name: str, text: str) -> Any:
    if text == NULL:
        return None
    if name == "time_hour":
        return datetime.fromisoformat(text).astimezone(UTC)
    return text if name in TEXTS else int(text)
