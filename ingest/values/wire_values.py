"""Values of binary formats that Python has no exact type for: times of any year and unit, and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.store.instants import DAY_NS, clock_text, day_text
from sparkhaven.store.quarantine.rejected_rows import Reason

MomentKind = Literal["instant", "local time", "date", "time of day"]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class WireValue:
    """A value of which the format says how it is written, and no type of ours takes, like an interval."""

    kind: str
    text: str
