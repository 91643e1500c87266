"""What a read or a command selects: tier, dates, sources; and the errors for values that do not exist.

Sources are internal partitions, named by the value from the data or by the directory name.

The directory of a value is its text with ``%XX`` for most signs (``store.layout.encode_internal``). A text that is
the directory name of one source and the value of another is refused: nothing says which one is meant.

Dates are ``D`` or ``A..B``. A partition value is any text. So a text is malformed only where it is no date, and the
table has dates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import unquote

from sparkhaven.store import next_steps
from sparkhaven.store.errors import InvalidNameError, SchemaMismatchError, SettingsError, TableNotFoundError, near
from sparkhaven.store.layout import TableName, check_partition, encode_internal
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import Column, case_twins

RANGE = ".."
_DATE = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[-T_ ]([0-9]{2}))?(?![0-9])")
_PREFIX = re.compile(r"[0-9]{4}(?:-(0[1-9]|1[0-2]))?\Z")
_SHAPE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]")


def begin_of(value: str) -> tuple[datetime, bool] | None:
    """The day or hour that a partition value begins with, without a zone, and whether it is an hour.

    Dates are ``2013-07-04`` or ``20130704``, optionally with the hour: ``-05``, ``T05``, ``_05`` or `` 05``. None for
    a value that begins with no date.
    """
    match = _DATE.match(value)
    if match is None:
        return None
    year, month, day, hour = match.groups()
    try:
        return datetime(int(year), int(month), int(day), int(hour or 0)), bool(hour)
    except ValueError:
        return None


def names(asked: str, value: str) -> bool:
    """Whether a text that is no range names a partition value: that value, or the day of which it is an hour."""
    return value == asked or day_of(value) == asked


def day_of(value: str) -> str | None:
    """The day that a partition value is an hour of, as the value has it; None for any other value."""
    match = _DATE.match(value) if len(value) > len("20130704") else None
    return value[: match.end(3)] if match is not None and match[4] is not None else None


def within(value: str, first: str, last: str) -> bool:
    """Whether a partition value is in the closed range; ``2013-01-02`` as the end takes all hours of that day."""
    return first <= value and value[: len(last)] <= last


def range_of(text: str) -> tuple[str, str] | None:
    """Both ends of ``A..B``; None for a single date. SettingsError where no value can be in it, or it is no text."""
    if not isinstance(text, str):
        raise SettingsError(
            "a date is not a text",
            expected="a text like '2026-11-20', or a range of dates 'A..B'",
            found=repr(text),
            hint="str(date) writes a date of Python so",
        )
    first, dots, last = text.partition(RANGE)
    if not dots:
        check_partition("date", text)
        return None
    for end in filter(None, (first, last)):
        check_partition("date", end)
    if not (first and last):
        raise SettingsError(
            "date range is missing its start or end", expected="A..B, like 2013-01-01..2013-12-31", found=repr(text)
        )
    if first[: len(last)] > last:  # as an end a day takes all of its hours
        raise SettingsError(
            "date range ends before it begins", expected=f"{last}..{first}", found=repr(text), hint="swap the ends"
        )
    return first, last


def is_well_formed(text: str) -> bool:
    """Whether it is a date, or a range of dates, whatever the table has. Ends of ranges may be a month or a year."""
    ends = range_of(text)
    if ends is None:
        return begin_of(text) is not None
    return all(begin_of(end) is not None or _PREFIX.match(end) for end in ends)


def refuse_malformed(asked: Iterable[str], known: Collection[str], *, new: bool = False) -> None:
    """SettingsError for a text that is not well-formed, and that the table does not have.

    ``known``: the partition values of the table. ``new``: a value may be new to the table, so without any known value
    only texts in the shape of a date are looked at. A date with dashes is none where all of the table have none, nor
    the other way round: compared as texts they would name nothing.
    """
    for text in asked:
        well_formed = is_well_formed(text) and _is_written_so(text, known)
        if not well_formed and not (text in known and range_of(text) is None) and not _has(text, known, new):
            raise SettingsError(
                "malformed date",
                expected=f"a date like {example(known)}, or a range of dates A..B",
                found=repr(text),
                hint="`sparkhaven stats` lists the dates of a table",
            )


def _is_written_so(text: str, known: Collection[str]) -> bool:
    """Whether a date, or each end of a range, has dashes as dates of the table have. A year alone has either."""
    dashes = {value[4:5] == "-" for value in known if begin_of(value) is not None}
    asked = {end[4:5] == "-" for end in range_of(text) or (text,) if len(end) > len("2026")}
    return not dashes or asked <= dashes


def _has(text: str, known: Collection[str], new: bool) -> bool:
    if new and not known:
        return not any(_SHAPE.match(name) for name in range_of(text) or (text,))
    if known and not any(begin_of(value) is not None for value in known):
        return True  # its values are no dates
    ends = range_of(text)
    if ends is None:
        return text in known
    fits = (is_well_formed(end) and _is_written_so(end, known) for end in ends)
    return all(fit or any(value.startswith(end) for value in known) for fit, end in zip(fits, ends, strict=True))


def example(known: Iterable[str]) -> str:
    return max((value for value in known if begin_of(value) is not None), default="2026-11-20")


def directories_of(source: str) -> tuple[str, ...]:
    """Names of directories that a source may mean: it as a directory name, then as a value."""
    try:
        encoded = encode_internal(source)
    except InvalidNameError:
        return (source,)
    return (source,) if encoded == source else (source, encoded)


def refuse_ambiguous_source(table: TableName, source: str, known: Collection[str]) -> None:
    """SettingsError for a directory name of one source that is the value of another one."""
    names = directories_of(source)
    if len(names) > 1 and all(name in known for name in names):
        directory, encoded = names
        raise SettingsError(
            f"{table} has two sources that {source!r} may mean",
            expected=f"{unquote(directory)!r} for directory {directory}, or {encoded!r} for directory {encoded}",
            found=repr(source),
            hint="name one of the two in this form",
        )


def directory_of(table: TableName, source: str, known: Collection[str]) -> str:
    """The directory name of a source, itself if no known one is meant. SettingsError where two are."""
    refuse_ambiguous_source(table, source, known)
    return next((name for name in directories_of(source) if name in known), source)


def refuse_unknown_sources(place: TablePlace, sources: Collection[str], known: set[str]) -> None:
    """TableNotFoundError for a source that no location of the table has; SettingsError for one that may mean two."""
    missing = [source for source in sources if known.isdisjoint(directories_of(source))]
    if missing:  # other dates may have it: only now is the directory worth a look
        known = known | set(place.fs.names(place.partitions))
    for source in sources:
        refuse_ambiguous_source(place.table, source, known)
    for source in missing:
        if known.isdisjoint(directories_of(source)):
            raise TableNotFoundError(
                f"{place.table} has no source {source!r}",
                expected=near(source, known),
                found=repr(source),
                hint=next_steps.what_is_there(place.table),
            )


def refuse_merged_sources(sources: Collection[str], record: MergeRecord) -> None:
    """SettingsError for a source whose rows are in a merged date: a part of the rows would be a wrong answer."""
    asked = {name for source in sources for name in directories_of(source)}
    outputs = {output.internal for output in record.outputs}
    for taken in record.inputs:
        if taken.internal in asked and taken.rows and taken.internal not in outputs:
            raise SettingsError(
                f"rows of source {taken.internal!r} cannot be distinguished: {record.value} is merged",
                where=f"{record.table} {record.value}, generation {record.generation}",
                expected=f"one of {sorted(outputs)}, or dates that are not merged",
                found=repr(taken.internal),
                hint="filter by a column, or read the tier intraday alone",
            )


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
            hint=other or next_steps.what_is_there(table),
        )


def refuse_case_twins(table: str, columns: Iterable[Column], who: str, instead: str) -> None:
    """SchemaMismatchError if two of the columns differ in case only.

    ``who`` ignores case; ``instead`` says what does not.
    """
    twins = case_twins(column.name for column in columns)
    if twins is not None:
        one, other = twins
        raise SchemaMismatchError(
            f"{who} cannot tell two columns of {table} apart",
            where=table,
            expected="names that differ by more than case",
            found=f"{one} and {other}",
            hint=f"{instead}. To rename one, write another name into the schema file, then"
            f" `sparkhaven schema deploy FILE --rename {other}=NEW`",
        )
