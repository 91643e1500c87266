"""What a read selects: tier, partition values, sources; and the errors for values that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Literal

from store.errors import SettingsError, TableNotFoundError
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.merges.records import MergeRecord
from store.scan.dates import range_of, refuse_malformed, within
from store.types.frozen import frozen

Tier = Literal["intraday", "history", "all"]
TIERS: tuple[Tier, ...] = ("intraday", "history", "all")


@frozen
class Selection:
    """Dates and sources of a read; None = all. An entry ``A..B`` in ``values`` is a closed range of values."""

    values: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    _single: frozenset[str] = field(init=False, repr=False, compare=False)
    _ranges: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ranges = {wanted: range_of(wanted) for wanted in self.values or ()}
        object.__setattr__(self, "_single", frozenset(wanted for wanted, ends in ranges.items() if ends is None))
        object.__setattr__(self, "_ranges", tuple(ends for ends in ranges.values() if ends is not None))

    @staticmethod
    def of(values: str | Iterable[str] | None, sources: str | Iterable[str] | None) -> Selection:
        """From one name, several, or None; a range that cannot hold any value is a SettingsError."""
        return Selection(_names(values), _names(sources))

    def takes_value(self, value: str) -> bool:
        """Whether a partition value is asked for."""
        if self.values is None or value in self._single:  # asked of every name in a directory of dates
            return True
        return bool(self._ranges) and any(within(value, first, last) for first, last in self._ranges)

    def takes_source(self, internal: str) -> bool:
        """Whether an internal partition is asked for."""
        return self.sources is None or internal in self.sources


def _names(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return (given,) if isinstance(given, str) else tuple(given)


def check_tier(tier: str) -> Tier:
    """The tier of that name; another text is a SettingsError."""
    for known in TIERS:
        if tier == known:
            return known
    raise SettingsError("no such tier", expected=" | ".join(TIERS), found=repr(tier), hint="leave it out for all")


def refuse_unknown_values(
    table: TableName, selection: Selection, tier: Tier, values: Collection[str], elsewhere: Collection[str]
) -> None:
    """TableNotFoundError for a single value that is not among those of the tier; a range may be empty.

    SettingsError for a text that is no date, where those of the table are.
    """
    refuse_malformed(selection.values or (), elsewhere)
    for wanted in selection.values or ():
        if ".." in wanted or wanted in values:
            continue
        other = f"the {tier} tier does not have it, another tier has: leave the tier out" if wanted in elsewhere else ""
        raise TableNotFoundError(
            f"{table} has no partition {wanted!r}",
            expected=near(wanted, values),
            found=repr(wanted),
            hint=other or f"`sparkhaven stats {table}` lists what is there",
        )


def refuse_unknown_sources(fs: Fs, layout: Layout, table: TableName, sources: Collection[str], known: set[str]) -> None:
    """TableNotFoundError for a source that no location of the table has."""
    missing = [source for source in sources if source not in known]
    if missing:  # other dates may have it: only now is the directory worth a look
        known = known | set(fs.names(layout.partitions(table.namespace)))
    for source in missing:
        if source not in known:
            raise TableNotFoundError(
                f"{table} has no source {source!r}",
                expected=near(source, known),
                found=repr(source),
                hint=f"`sparkhaven stats {table}` lists what is there",
            )


def refuse_merged_sources(selection: Selection, record: MergeRecord) -> None:
    """SettingsError for a source whose rows are in a merged date: a part of the rows would be a wrong answer."""
    outputs = {output.internal for output in record.outputs}
    for taken in record.inputs:
        if selection.sources and taken.internal in selection.sources and taken.rows and taken.internal not in outputs:
            raise SettingsError(
                f"rows of source {taken.internal!r} cannot be distinguished: {record.value} is merged",
                where=f"{record.table} {record.value}, generation {record.generation}",
                expected=f"one of {sorted(outputs)}, or dates that are not merged",
                found=repr(taken.internal),
                hint="filter by a column with --where, or read --tier intraday",
            )


def near(wanted: str, names: Collection[str]) -> str:
    """Names close to a wanted one for a message; else the first and last of what there is."""
    close = difflib.get_close_matches(wanted, sorted(names), n=5, cutoff=0.5)
    if close:
        return "one of " + ", ".join(close)
    ordered = sorted(names)
    if len(ordered) > 6:
        return f"one of {len(ordered)}: {', '.join(ordered[:3])} ... {', '.join(ordered[-3:])}"
    return "one of " + ", ".join(ordered) if ordered else "no name: there are none yet"
