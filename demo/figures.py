"""Known counts of the flights of 2013, compared with a table of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from demo import feed as flights
from sparkhaven.store.layout import LocationKey

KEY = ("year", "month", "day", "carrier", "flight", "origin", "sched_dep_time")  # unique in the package


@dataclass(frozen=True, slots=True)
class Figure:
    """One expectation and what was found."""

    name: str
    expected: object
    found: object

    @property
    def ok(self) -> bool:
        return self.expected == self.found

    @staticmethod
    def text(value: object) -> str:
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def figures(whole: pa.Table, intraday: Mapping[LocationKey, int], left: int) -> list[Figure]:
    """Counts of the whole table; ``intraday`` = rows by location after ingest, ``left`` = rows there at the end."""
    origins = _counts(whole["origin"])
    by_date = _counts(whole["Date"])
    counts = [
        Figure("rows", flights.ROWS, whole.num_rows),
        *(Figure(f"rows from {name}", rows, origins.get(name, 0)) for name, rows in flights.ROWS_BY_ORIGIN.items()),
        Figure("dates", flights.DATES, len(by_date)),
        Figure("rows a date, fewest to most", _range(flights.ROWS_A_DATE), _range_of(by_date.values())),
        Figure("intraday locations after ingest", flights.LOCATIONS, len(intraday)),
        Figure("rows a location, fewest to most", _range(flights.ROWS_A_LOCATION), _range_of(intraday.values())),
        Figure("intraday rows after truncate", 0, left),
    ]
    for name, distinct in flights.DISTINCT.items():
        counts.append(Figure(f"distinct {name}", distinct, len(_counts(whole[name].drop_null()))))
    for name, nulls in flights.NULLS.items():
        counts.append(Figure(f"nulls in {name}", nulls, whole[name].null_count))
    others = [name for name in whole.schema.names if name not in flights.NULLS]
    return [*counts, Figure("nulls in all other columns", 0, sum(whole[name].null_count for name in others))]


def same_as_package(whole: pa.Table) -> Figure:
    """How many values of the table equal those of the package's CSV, row by row under the unique key."""
    source = package_table()
    columns = source.schema.names
    plain = pa.table({name: whole[name].cast(source.schema.field(name).type) for name in columns})
    order = [(name, "ascending") for name in KEY]
    ours, theirs = plain.sort_by(order), source.sort_by(order)
    if ours.num_rows != theirs.num_rows:
        return Figure("values equal to the package's", theirs.num_rows * len(columns), "other row count")
    equal = sum(_equal(ours[name], theirs[name]) for name in columns)
    return Figure("values equal to the package's", theirs.num_rows * len(columns), equal)


def package_table() -> pa.Table:
    """The package's CSV with the types of the table's schema."""
    with zipfile.ZipFile(flights.archive()) as opened:
        raw = opened.read("flights.csv")
    names = raw[: raw.index(b"\n")].decode("ascii").strip().split(",")
    types = {name: pa.string() if name in flights.TEXTS else pa.int32() for name in names}
    types["time_hour"] = pa.timestamp("ns", "UTC")
    options = pacsv.ConvertOptions(column_types=types, null_values=[flights.NULL], strings_can_be_null=True)
    return pacsv.read_csv(io.BytesIO(raw), convert_options=options)


def _equal(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> int:
    both_null = pc.and_(pc.is_null(ours), pc.is_null(theirs))
    equal = pc.fill_null(pc.equal(ours, theirs), False)
    return int(pc.sum(pc.or_(both_null, equal)).as_py())


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    return {str(entry["values"]): int(entry["counts"]) for entry in column.value_counts().to_pylist()}


def _range(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,} to {pair[1]:,}"


def _range_of(values: object) -> str:
    listed = list(values)  # type: ignore[call-overload]
    return _range((min(listed), max(listed))) if listed else "none"
