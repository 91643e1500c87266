"""Dates and timestamps of Parquet files that were written in the calendar of old Java classes, as those of today's.

That calendar is Julian until 1582-10-04, and Gregorian from the next day on, which is 1582-10-15. Spark wrote in it
before 3.0, of INT96 before 3.1, and writes in it where it is told to; Hive writes dates in it. The footer says so. Such
a day becomes the day with the same year, month and day in the calendar of ISO 8601, as Spark reads it; 29 February of a
year that has none there becomes 1 March.

Before 1900 the old classes know other offsets of a time zone than the time zone database has. So an instant before 1900
is sure only where the writer's zone is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.instants import UNIT_NS

SPARK = b"org.apache.spark.version"
SPARK_ZONE = b"org.apache.spark.timeZone"
SPARK_ROWS = b"org.apache.spark.sql.parquet.row.metadata"  # without a version: Spark before it wrote one
SPARK_DATES, SPARK_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
HIVE_DATES = b"writer.date.proleptic"
GREGORIAN_DAY = -141_427  # 1582-10-15
SURE_S = -2_208_988_800  # 1900-01-01T00:00:00Z
UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "+00:00"})
_MARCH_0 = 719_470  # days from 0000-03-01 of the Julian calendar to 1970-01-01
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class HybridCalendar:
    """What of a file is in the old calendar; ``zone``: the writer's, where the file says it."""

    dates: bool
    timestamps: bool
    int96: bool
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class UnsureInstants:
    """Rows of a column with an instant in doubt; ``zone``: the writer's, None where the file does not say it."""

    rows: pa.BooleanArray
    zone: str | None

    def slice(self, start: int, count: int) -> UnsureInstants:
        return UnsureInstants(self.rows.slice(start, count), self.zone)

    def filter(self, mask: pa.BooleanArray) -> UnsureInstants:
        return UnsureInstants(self.rows.filter(mask), self.zone)


def hybrid_calendar(footer: Mapping[bytes, bytes] | None) -> HybridCalendar | None:
    """By the key-value metadata of a file; None where all of it is in today's calendar."""
    keys = footer or {}
    version = _version(keys[SPARK]) if SPARK in keys else (0, 0) if SPARK_ROWS in keys else None
    dates, old = SPARK_DATES in keys, SPARK_INT96 in keys
    if version is not None:
        dates, old = dates or version < (3, 0), old or version < (3, 1)
    by_hive = keys.get(HIVE_DATES, b"").lower() == b"false"
    zone = keys.get(SPARK_ZONE)
    calendar = HybridCalendar(dates or by_hive, dates, old, None if zone is None else zone.decode("utf-8", "replace"))
    return calendar if calendar.dates or old else None


def in_todays_calendar(
    array: pa.Array, calendar: HybridCalendar, *, int96: bool = False
) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    """A column of any type with its dates and instants in today's calendar, and which rows have one that is in doubt.

    ``int96``: its timestamps are of that type. A timestamp without a zone is as it was written.
    """
    kind, kinds = array.type, pa.types
    if array.offset and kinds.is_nested(kind):
        array = array.take(pa.array(np.arange(len(array))))  # a null mask beside offsets has to begin with them
    if kinds.is_dictionary(kind):
        values, doubt = in_todays_calendar(array.dictionary, calendar, int96=int96)
        if doubt is not None:
            doubt = doubt[array.indices.fill_null(0).to_numpy(zero_copy_only=False)] & ~np.asarray(array.is_null())
        return pa.DictionaryArray.from_arrays(array.indices, values), doubt
    if kinds.is_date(kind):
        return (_dates(array) if calendar.dates else array), None
    if kinds.is_timestamp(kind):
        rebase = kind.tz is not None and (calendar.int96 if int96 else calendar.timestamps)
        return _instants(array, calendar) if rebase else (array, None)
    if kinds.is_struct(kind):
        return _struct(array, calendar)
    if kinds.is_map(kind):
        keys, of_keys = in_todays_calendar(array.keys, calendar)
        items, of_items = in_todays_calendar(array.items, calendar)
        whole = pa.MapArray.from_arrays(array.offsets, keys, items, kind, mask=pc.is_null(array))
        doubt = _either(of_keys, of_items)
        return whole, None if doubt is None else rows_with(array, doubt)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        values, doubt = in_todays_calendar(array.values, calendar)
        whole = type(array).from_arrays(array.offsets, values, kind, mask=pc.is_null(array))
        return whole, None if doubt is None else rows_with(array, doubt)
    return array, None


def _version(text: bytes) -> tuple[int, int]:
    match = re.match(rb"(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def todays_days(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Days since 1970-01-01 of the old calendar as the days of today's with the same year, month and day."""
    march = days + _MARCH_0  # years begin with March, so that the leap day is their last
    cycle, day = np.divmod(march, 1461)
    year_of_cycle = np.minimum(day // 365, 3)
    day_of_year = day - 365 * year_of_cycle
    year = cycle * 4 + year_of_cycle
    century, rest = np.divmod(year, 400)
    days_before = century * 146_097 + rest * 365 + rest // 4 - rest // 100
    return np.where(days < GREGORIAN_DAY, days_before + day_of_year - 719_468, days)


def _dates(array: pa.Array) -> pa.Array:
    scale = 1 if pa.types.is_date32(array.type) else _DAY_MS
    counts = array.view(pa.int32() if scale == 1 else pa.int64()).cast(pa.int64()).fill_null(0).to_numpy()
    days, rest = np.divmod(counts, scale)
    if not (days < GREGORIAN_DAY).any():
        return array
    moved = pa.array(todays_days(days) * scale + rest, mask=np.asarray(array.is_null()))
    return moved.cast(pa.int32()).view(array.type) if scale == 1 else moved.view(array.type)


def _instants(array: pa.Array, calendar: HybridCalendar) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    second = UNIT_NS["s"] // UNIT_NS[array.type.unit]
    null = np.asarray(array.is_null())
    counts = array.view(pa.int64()).fill_null(0).to_numpy()
    early = (counts < SURE_S * second) & ~null
    if not early.any():
        return array, None
    days, rest = np.divmod(counts, 86_400 * second)
    moved = pa.array(todays_days(days) * (86_400 * second) + rest, mask=null).view(array.type)
    return moved, None if calendar.zone in UTC_NAMES else early


def _struct(array: pa.StructArray, calendar: HybridCalendar) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    kind, doubt, fields = array.type, None, []
    for index in range(kind.num_fields):
        values, more = in_todays_calendar(array.field(index), calendar)
        fields.append(values)
        doubt = _either(doubt, more)
    whole = pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(array))
    return whole, None if doubt is None else doubt & ~np.asarray(array.is_null())


def _either(one: npt.NDArray[np.bool_] | None, other: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    return other if one is None else one if other is None else one | other


def rows_with(array: pa.Array, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which lists or maps have a value that is marked, of all values of the array."""
    before = np.concatenate(([0], np.cumsum(marked)))
    offsets = array.offsets.to_numpy()
    rows: npt.NDArray[np.bool_] = before[offsets[1:]] > before[offsets[:-1]]
    return np.asarray(rows & ~np.asarray(array.is_null()))
