"""One instant at a time, exactly: from ISO texts, local texts and numbers to nanoseconds since the epoch.

Part of the definition in ``ingest.values.exact_values``: nothing is rounded, and a local time that a zone's clocks skip
is refused.

Dates and times of day may come as counts: days, seconds, milli-, micro- or nanoseconds. A count is first taken as a
column of whole numbers, or of Instants, takes it: with the same rules for quotes, blanks and fractions. Then it becomes
the date since 1970-01-01, or the time since midnight, that it counts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import Typed, either, some
from sparkhaven.ingest.values.refusals import OutOfRange, Refusal, Value, out_of_range
from sparkhaven.ingest.values.zones import zone_table
from sparkhaven.store.instants import DAY_NS, UNIT_NS, days_of
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.codings.local_date import FIRST_DAY, LAST_DAY
from sparkhaven.store.types.datatypes import LONG_NULL, data_type

INSTANT_LOW, INSTANT_HIGH = LONG_NULL + 1, 2**63 - 1
EXAMPLE = "2013-01-01T05:00:00Z"

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?\Z",
    re.ASCII,
)


def check_instant(value: int, target: Target, alias: bool = False) -> Value | Refusal:
    """Nanoseconds since the epoch that fit an Instant."""
    return settled(_instant(value, alias), target)


def local_instant(value: int, target: Target, alias: bool = False) -> Value | Refusal:
    """A local time in the zone of the column, as nanoseconds since 1970-01-01 on its clocks."""
    return settled(_local(*divmod(value, UNIT_NS["s"]), target, alias), target)


def settled(instant: Value | Refusal, target: Target) -> Value | Refusal:
    """What the column makes of a far instant, by its setting ``far``; anything else stays as it is."""
    if target.far is None or not isinstance(instant, OutOfRange):
        return instant
    return None if target.far == "null" else INSTANT_HIGH if instant.above else INSTANT_LOW


def iso_instant(text: str, target: Target, alias: bool) -> Value | Refusal:
    """An ISO text, with an offset or in the zone of the column."""
    match = _ISO.match(text)
    if match is None:
        return Refusal(Reason.NOT_AN_INSTANT, f"a text like {EXAMPLE}")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        days = days_of(int(year), int(month), int(day))
    except ValueError:
        return Refusal(Reason.NO_SUCH_DAY, f"a text like {EXAMPLE}")
    clock = [int(part or 0) for part in (hour, minute, second)]
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return Refusal(Reason.NO_SUCH_TIME, f"a text like {EXAMPLE}")
    local = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    below = int((fraction or "0").ljust(9, "0"))
    if offset is not None:
        shift = _offset(offset)
        if shift is None:
            return Refusal(Reason.NO_SUCH_OFFSET, "an offset from -23:59 to +23:59")
        return _instant((local - shift) * UNIT_NS["s"] + below, alias)
    return _local(local, below, target, alias)


def _local(local: int, below: int, target: Target, alias: bool) -> Value | Refusal:
    """Seconds on the clocks of the column's zone, and nanoseconds below."""
    if target.zone is None:
        return Refusal(Reason.NO_ZONE, "an offset in the text, or a zone for the column")
    if not INSTANT_LOW < (local - 2 * 86_400) * UNIT_NS["s"] < (local + 2 * 86_400) * UNIT_NS["s"] < INSTANT_HIGH:
        return out_of_range(local > 0)
    utc, gap = zone_table(target.zone).to_utc(np.array([local * UNIT_NS["s"]], np.int64))
    if gap[0]:
        return Refusal(Reason.SKIPPED_TIME, f"a time that the clocks of {target.zone} have shown")
    return _instant(int(utc[0]) + below, alias)


def _offset(text: str) -> int | None:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def epoch_instant(value: Decimal, target: Target, alias: bool) -> Value | Refusal:
    """A number in the unit of the column."""
    scale = UNIT_NS[target.unit]
    if not value.is_finite() or (value and value.adjusted() > 20):
        return out_of_range(value > 0)
    if value and value.adjusted() < -10:
        return Refusal(Reason.TOO_FINE, f"a number in {target.unit}, exact to the nanosecond")
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > 200:
        return Refusal(Reason.TOO_MANY_DIGITS, f"a number in {target.unit}, exact to the nanosecond")
    scaled = int("".join(map(str, digits))) * scale * (-1 if sign else 1)
    if exponent >= 0:
        return _instant(scaled * 10**exponent, alias)
    whole, rest = divmod(scaled, 10**-exponent)
    if rest:
        return Refusal(Reason.TOO_FINE, f"a number in {target.unit}, exact to the nanosecond")
    return _instant(whole, alias)


def _instant(value: int, alias: bool) -> Value | Refusal:
    if value == LONG_NULL:
        return None if alias else Refusal(Reason.NULL_ALIAS, "an instant from 1677 to 2262")
    return value if INSTANT_LOW <= value <= INSTANT_HIGH else out_of_range(value > 0)


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
    """What a column of counts stands for; a count that stands for no date or time is in doubt."""
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
