"""Instants as text: ISO 8601 with a zone, to nanoseconds since 1970-01-01T00:00:00Z."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_FORM = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
NS_PER_SECOND = 1_000_000_000
UNIT_NS = {"s": NS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
MIN_NS, MAX_NS = -(2**63) + 1, 2**63 - 1  # the smallest long is the null


def parse_instant(text: str) -> int:
    """Nanoseconds of an instant such as ``2013-01-01T05:00:00.123456789-05:00`` or ``…Z``.

    Raises ValueError when the form is another, the zone is missing or the time is outside the range of a long.
    """
    match = _FORM.match(text)
    if match is None:
        raise ValueError("an instant with zone, such as 2013-01-01T05:00:00Z")
    day, clock, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}")
    nanos = (moment - _EPOCH) // _SECOND * NS_PER_SECOND + int((fraction or "").ljust(9, "0"))
    if not MIN_NS <= nanos <= MAX_NS:
        raise ValueError("an instant from 1677-09-21T00:12:43.145224193Z to 2262-04-11T23:47:16.854775807Z")
    return nanos
