"""Values of binary formats that Python has no exact type for: times of any year and unit, and intervals."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.frozen import frozen

DAY_NS = 86_400 * NS_PER_SECOND
_YEAR_0 = -719_528  # the first day of the year before 1, in days since 1970
MomentKind = Literal["instant", "local time", "date", "time of day"]


@frozen
class Moment:
    """A count of ``unit_ns`` nanoseconds as it was sent: since 1970 in UTC, since 1970 on local clocks, or midnight."""

    kind: MomentKind
    count: int
    unit_ns: int

    @property
    def ns(self) -> int:
        """The count in nanoseconds."""
        return self.count * self.unit_ns

    @property
    def text(self) -> str | Refusal:
        """ISO 8601, with T between date and time and Z for UTC. A fraction has 3, 6 or 9 digits, or is left out."""
        days, rest = divmod(self.ns, DAY_NS)
        if self.kind == "time of day":
            late = Refusal(Reason.NO_TIME_OF_DAY, "a time before 24:00", str(self.count))
            return late if days else clock_text(rest)
        day = day_text(days)
        if self.kind == "date":
            return day
        return f"{day}T{clock_text(rest)}{'Z' if self.kind == 'instant' else ''}"


@frozen
class WireValue:
    """A value of which the format says how it is written, and no type of ours takes, like an interval."""

    kind: str
    text: str


def day_text(days: int) -> str:
    """Days since 1970 as an ISO date; a year has four digits at least."""
    year, _, rest = str(np.datetime64(days, "D")).removeprefix("-").partition("-")
    return f"{'-' if days < _YEAR_0 else ''}{year:0>4}-{rest}"


def clock_text(ns: int) -> str:
    """A time of day as ISO text."""
    seconds, below = divmod(ns, NS_PER_SECOND)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction_text(below)}"


def fraction_text(ns: int) -> str:
    """Nanoseconds below a second with their point: 3, 6 or 9 digits, none for 0."""
    digits = f"{ns:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""
