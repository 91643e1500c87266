"""Values of a settings file, from text: durations, sizes and fixed times; anything else is a ValueError."""

from __future__ import annotations

import re
from datetime import datetime

DURATION_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
SIZE_UNITS = {
    "b": 1,
    **{name: 1000**power for power, name in enumerate(("kb", "mb", "gb", "tb"), 1)},
    **{name: 1024**power for power, name in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_NUMBER_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*\Z")


def parse_duration(text: object) -> float:
    """Seconds of a text like ``1 second``, ``100 ms`` or ``7 d``; anything else is a ValueError."""
    match = _NUMBER_UNIT.match(text) if isinstance(text, str) else None
    unit = DURATION_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError('a duration is a number with a unit, like "1 second", "100 ms" or "7 d"')
    return float(match[1]) * unit


def parse_size(value: object) -> int:
    """Bytes of a whole number, or of a text like ``64MB`` (10^6) or ``64 MiB`` (2^20); else a ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _NUMBER_UNIT.match(value) if isinstance(value, str) else None
    unit = SIZE_UNITS.get(match[2].lower()) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if size < 1:
        raise ValueError('a size is a number of bytes above 0, or a text like "64MB" or "64 MiB"')
    return size


def parse_instant_ns(value: object) -> int:
    """Nanoseconds since the epoch of an ISO text or TOML time with a zone; else a ValueError."""
    message = 'a time is written like "2013-12-31T23:59:59Z", with its zone'
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(message) from None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError(message)
    elapsed = moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1000
