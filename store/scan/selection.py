"""What a read selects: tier, partition values, sources; and the errors for values that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field
from typing import Literal

from sparkhaven.store.errors import SettingsError, TableNotFoundError, near
from sparkhaven.store.layout import TableName
from sparkhaven.store.scan.date_ranges import day_of, names, range_of, refuse_malformed, within
from sparkhaven.store.scan.source_names import directories_of

Tier = Literal["intraday", "history", "all"]
TIERS: tuple[Tier, ...] = ("intraday", "history", "all")


@dataclass(frozen=True, slots=True)
class Selection:
    """Dates and sources of a read; None = all. An entry ``A..B`` in ``values`` is a closed range of values.

    A day takes its hours.

    A source is the value from the data, or the name of its directory.
    """

    values: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    _single: frozenset[str] = field(init=False, repr=False, compare=False)
    _ranges: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _directories: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ranges = {wanted: range_of(wanted) for wanted in self.values or ()}
        object.__setattr__(self, "_single", frozenset(wanted for wanted, ends in ranges.items() if ends is None))
        object.__setattr__(self, "_ranges", tuple(ends for ends in ranges.values() if ends is not None))
        names = (name for source in self.sources or () for name in directories_of(source))
        object.__setattr__(self, "_directories", frozenset(names))

    @staticmethod
    def of(values: str | Iterable[str] | None, sources: str | Iterable[str] | None) -> Selection:
        """From one name, several, or None; a range that cannot hold any value is a SettingsError."""
        return Selection(_names(values), _names(sources))

    @property
    def single(self) -> tuple[str, ...] | None:
        """The values and days, where they are named one by one."""
        return None if self._ranges else self.values

    def takes_value(self, value: str) -> bool:
        if self.values is None or value in self._single:  # asked of every name in a directory of dates
            return True
        if self._single and day_of(value) in self._single:
            return True
        return bool(self._ranges) and any(within(value, first, last) for first, last in self._ranges)

    def taken(self, values: Set[str]) -> list[str]:
        """Those of these values that it takes, sorted."""
        return sorted(value for value in values if self.takes_value(value))

    def takes_source(self, internal: str) -> bool:
        return self.sources is None or internal in self._directories


def _names(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, str) else tuple(given)


def check_tier(tier: str) -> Tier:
    for known in TIERS:
        if tier == known:
            return known
    raise SettingsError("unknown tier", expected=" | ".join(TIERS), found=repr(tier), hint="leave it out for all")


def refuse_unknown_values(
    table: TableName, selection: Selection, tier: Tier, values: Collection[str], elsewhere: Collection[str]
) -> None:
    """TableNotFoundError for a single value that is not among those of the tier; a range may be empty.

    SettingsError for a text that is no date, where those of the table are.
    """
    refuse_malformed(selection.values or (), elsewhere)
    for wanted in selection.values or ():
        if ".." in wanted or wanted in values or any(names(wanted, value) for value in values):
            continue
        other = "another tier has it. Leave the tier out" if any(names(wanted, value) for value in elsewhere) else ""
        raise TableNotFoundError(
            f"{table} has no partition {wanted!r}",
            expected=near(wanted, values),
            found=repr(wanted),
            hint=other or f"`sparkhaven stats {table}` lists what is there",
        )
