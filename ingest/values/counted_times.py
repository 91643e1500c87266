"""Dates and times of day that a feed gives as counts: days, seconds, milli-, micro- or nanoseconds.

A count is first taken as a column of whole numbers, or of Instants, takes it: with the same rules for quotes, blanks
and fractions. Then it becomes the date since 1970-01-01, or the time since midnight, that it counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import Typed, either, some
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.store.instants import DAY_NS, UNIT_NS
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.codings.local_date import FIRST_DAY, LAST_DAY
from sparkhaven.store.types.datatypes import data_type

UNITS_OF = {
    "Instant": ("s", "ms", "us", "ns"),
    "Instant[]": ("s", "ms", "us", "ns"),
    "LocalDate": ("d", "s", "ms", "us", "ns"),
    "LocalTime": ("s", "ms", "us", "ns"),
}
"""The units of counts that a column of each type takes."""
_NUMBERS = {"LocalDate": data_type("long"), "LocalTime": data_type("Instant")}


def is_counted(target: Target) -> bool:
    """Whether the column is a date or a time of day that comes as a count."""
    return target.unit != "iso" and target.column.type.name in _NUMBERS


def count_target(target: Target) -> Target:
    """The column that a count is taken as first: days since 1970, counts of a unit, or nanoseconds."""
    name = target.column.type.name
    column = replace(target.column, type=_NUMBERS[name])
    return replace(target, column=column, unit="iso" if name == "LocalDate" else target.unit)


def with_ways(value: Value | Refusal, target: Target) -> Value | Refusal:
    """A refusal of a date or a time of day, with the settings that would take other forms of it."""
    name = target.column.type.name
    if not isinstance(value, Refusal) or name not in _NUMBERS or value.reason is not Reason.NO_VALUE_OF_TYPE:
        return value
    return replace(value, expected=f"{value.expected}, or unit or format for column {target.column.name}")


def counted_value(count: Value | Refusal, target: Target) -> Value | Refusal:
    """What a count stands for, or why it stands for none."""
    if not isinstance(count, int):
        return count
    coding = target.column.type.coding
    assert coding is not None  # noqa: S101  a date or a time
    if target.column.type.name == "LocalDate":
        days, rest = divmod(count, _per_day(target))
        if rest:
            return Refusal(Reason.NO_WHOLE_DAY, f"a whole day in {target.unit}")
        return days if FIRST_DAY <= days <= LAST_DAY else Refusal(Reason.OVERFLOW, coding.domain)
    if not 0 <= count < DAY_NS:
        return Refusal(Reason.NO_TIME_OF_DAY, "a time before 24:00, since midnight")
    fits = coding.unstorable(pa.array([count], pa.int64()).view(coding.arrow)) is None
    return count if fits else Refusal(Reason.NOT_EXACT, coding.domain)


def counted_column(counts: Typed, target: Target) -> Typed:
    """The same for a column; what stands for no date or time is in doubt."""
    array, doubt = counts
    coding = target.column.type.coding
    assert coding is not None  # noqa: S101  a date or a time
    null = ~np.asarray(array.is_valid())
    values = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if target.column.type.name == "LocalDate":
        days, rest = np.divmod(values, _per_day(target))
        bad = ((rest != 0) | (days < FIRST_DAY) | (days > LAST_DAY)) & ~null
        dates = pa.array(np.where(bad, 0, days).astype(np.int32), mask=null | bad)
        return dates.view(coding.arrow), either(doubt, some(bad))
    bad = ((values < 0) | (values >= DAY_NS)) & ~null
    times = pa.array(np.where(bad, 0, values), mask=null | bad).view(coding.arrow)
    return times, either(either(doubt, some(bad)), coding.unstorable(times))


def _per_day(target: Target) -> int:
    return 1 if target.unit == "d" else DAY_NS // UNIT_NS[target.unit]
