"""What is proposed for a table: a column for each field of a sample, where rows go, and why.

It says which instant gives the date, what names internal partitions, and which column groups history.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparkhaven.ingest.formats.parquet.typed_values import SourceColumn, exact_value
from sparkhaven.ingest.inference.column_type import DAY, TypeChoice, choose, event, instrument
from sparkhaven.ingest.inference.field_facts import (
    FRACTION,
    TEXT,
    WHOLE,
    Facts,
    Reading,
    column_names,
    facts_of,
    misfit,
    misfits,
    plain_outcomes,
)
from sparkhaven.ingest.sample_rows import Sample, shown
from sparkhaven.ingest.spec import Meta, Target
from sparkhaven.store.errors import FeedError

NULL_TEXTS = ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "\\N", "-", "?")
"""Texts that stand for null in CSV files, where all others of a column are numbers or instants."""

FEW = 100  # values of which little can be said
WIDE = 200  # characters of texts that are no symbols

POSITION: tuple[tuple[str, str, Meta], ...] = (
    ("KafkaPartition", "int", "partition"),
    ("KafkaOffset", "long", "offset"),
    ("KafkaTimestamp", "Instant", "timestamp"),
)
"""Columns for the position of a message: name, type, what of the position."""


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A column for a field. ``blob``: a String without a symbol table. No reading: the field is left out."""

    name: str
    source: str
    reading: Reading | None
    facts: Facts
    reason: str = ""
    notes: tuple[str, ...] = ()
    blob: bool = False

    @property
    def symbols(self) -> bool:
        """Whether it has a symbol table."""
        return self.reading is not None and self.reading.type == "String" and not self.blob


@dataclass(frozen=True, slots=True)
class Proposal:
    """Columns in the order of the feed, and the sample by which they were chosen."""

    sample: Sample
    columns: tuple[FieldColumn, ...]
    position: tuple[tuple[str, str, Meta], ...] = ()

    @property
    def stored(self) -> tuple[FieldColumn, ...]:
        return tuple(column for column in self.columns if column.reading is not None)


def propose(sample: Sample, *, partitioning: str = "Date", zone: str = "UTC", blobs: Sequence[str] = ()) -> Proposal:
    """A column for each field. ``blobs`` names columns, or fields, that get no symbol table.

    FeedError for a sample without a field that can be stored.
    """
    sample = with_nulls(sample, zone)
    position = POSITION if sample.messages else ()
    names = column_names(sample.fields, [partitioning, *(name for name, _, _ in position)])
    columns = tuple(_column(sample, source, name, zone, blobs) for source, name in names.items())
    if not any(column.reading is not None for column in columns):
        raise FeedError(
            "the rows of the sample have no field that can be stored",
            where=sample.origin,
            expected="at least one field of a type that this release stores",
            found="; ".join(f"{shown(c.source)}: {c.reason}" for c in columns[:3]) or "rows without a field",
            hint="name a feed with such fields",
        )
    return Proposal(sample, columns, position)


def with_nulls(sample: Sample, zone: str) -> Sample:
    """A sample of CSV with the texts that mean null in it: those without which a column would be of no other type."""
    if sample.form != "csv":
        return sample
    more: dict[str, None] = {}
    for source in sample.fields:
        facts = facts_of(sample, source)
        if TEXT not in facts.kinds:
            continue
        odd = [text for text in NULL_TEXTS if text in facts.counts and text not in sample.null]
        if not odd or len(odd) > 2:
            continue
        without = replace(sample, null=(*sample.null, *odd))
        rest = facts_of(without, source)
        reading = _chosen(without, source, rest, zone).reading if rest.values else None
        if reading is not None and reading.type != "String":
            more |= dict.fromkeys(odd)
    return replace(sample, null=(*sample.null, *more)) if more else sample


def _chosen(sample: Sample, source: str, facts: Facts, zone: str) -> TypeChoice:
    fits: Callable[[Reading], bool] = lambda reading: misfit(sample, source, reading) is None  # noqa: E731
    return choose(facts, source, sample.form, zone, fits)


def _column(sample: Sample, source: str, name: str, zone: str, blobs: Sequence[str]) -> FieldColumn:
    facts = facts_of(sample, source)
    chosen = _chosen(sample, source, facts, zone)
    notes = list(chosen.also)
    if source in sample.lacking:
        notes.append('some files do not declare this field: missing_columns = "null" makes it null there')
    blob = False
    if chosen.reading is not None and chosen.reading.type == "String":
        refused = list(misfits(sample, source, chosen.reading))
        if refused:
            words = f"{len(refused):,} of the sample cannot be stored in any type and are bad rows"
            notes.append(f"{words}, first {refused[0]}")
        why = _no_symbols(facts, chosen.reading)
        if name in blobs or source in blobs:
            blob, why = True, "as asked for"
        elif why:
            blob = True
        if blob:
            notes.append(f"no symbol table: {why}")
    return FieldColumn(name, source, chosen.reading, facts, chosen.reason, tuple(notes), blob)


def _no_symbols(facts: Facts, reading: Reading) -> str:
    if facts.widest > WIDE:
        return f"texts have up to {facts.widest:,} characters"
    if reading.form is not None and set(facts.kinds) - {TEXT, WHOLE, FRACTION}:
        return "JSON texts repeat little"
    if facts.values >= FEW and facts.distinct > facts.values / 2:
        return f"{facts.distinct:,} of {facts.values:,} texts are different"
    return ""


GROUPS = (2, 1000)  # different values of a grouping column
REPEATS = 10  # rows of each of them, at least
SOURCES = (2, 16)  # different values of a column that names internal partitions
ENOUGH = 1000  # rows from which on a column is proposed for that
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


@dataclass(frozen=True, slots=True)
class DateColumn:
    """The column that gives dates: its name, and the range of its instants in ns.

    ``routing``: how a column that is read for this only, and not stored, comes from its field.
    """

    name: str
    low: int
    high: int
    routing: tuple[str, Reading] | None = None


def date_column(sample: Sample, columns: Sequence[FieldColumn], zone: str) -> DateColumn | None:
    """The best column for dates: an Instant without nulls, by its name, its order, its place; else dates."""
    read = [(column, column.reading) for column in columns if column.reading is not None and not column.facts.nulls]
    instants = [(column, reading) for column, reading in read if reading.type == "Instant"]
    ranked: list[tuple[tuple[bool, bool, int], DateColumn]] = []
    for index, (column, reading) in enumerate(instants):
        values = _instants(sample, column.source, reading)
        if values is not None and len(values):
            falls = int((np.diff(values) < 0).sum())
            rank = (not event(column.source), falls > len(values) // 10, index)
            ranked.append((rank, DateColumn(column.name, int(values.min()), int(values.max()))))
    if ranked:
        return min(ranked, key=lambda candidate: candidate[0])[1]
    taken = {column.name for column in columns}
    for column, reading in read:
        days = reading.type == "LocalDate" and reading.form is None
        days |= reading.type == "String" and all(map(DAY.match, column.facts.counts))
        if not days:
            continue
        reading = Reading("Instant", zone=zone)
        values = _instants(sample, column.source, reading)
        if values is not None and len(values):
            name = f"{column.name}_instant"
            if name not in taken:
                return DateColumn(name, int(values.min()), int(values.max()), (column.source, reading))
    return None


def grouping_column(columns: Sequence[FieldColumn]) -> FieldColumn | None:
    """The column of symbols that history keeps together: by its name, else the finest one that repeats."""
    fit = [
        column
        for column in columns
        if column.symbols
        and not column.facts.nulls
        and GROUPS[0] <= column.facts.distinct <= GROUPS[1]
        and column.facts.values >= REPEATS * column.facts.distinct
    ]
    named = [column for column in fit if instrument(column.source)]
    if named:
        return named[0]
    return max(fit, key=lambda column: column.facts.distinct, default=None)


def internal_column(columns: Sequence[FieldColumn], rows: int, grouping: str | None) -> FieldColumn | None:
    """A column with a few plain values, each of which comes often, so that each may be a directory of its own."""
    if rows < ENOUGH:
        return None
    for column in columns:
        counts = column.facts.counts
        if (
            column.symbols
            and column.name != grouping
            and not column.facts.nulls
            and SOURCES[0] <= len(counts) <= SOURCES[1]
            and all(map(_PLAIN.match, counts))
            and min(counts.values()) * 100 >= rows
        ):
            return column
    return None


def _instants(sample: Sample, source: str, reading: Reading) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Nanoseconds of a field, None if a value is refused."""
    values = _exact(sample, source, reading.target(source))
    return np.array(values, np.int64) if all(isinstance(value, int) for value in values) else None


def _exact(sample: Sample, source: str, target: Target) -> list[object]:
    if sample.form == "parquet":
        columns = (SourceColumn(part.array, part.far) for part in sample.fields[source])
        return [exact_value(column, row, target, False) for column in columns for row in range(len(column.array))]
    return [outcome for _, outcome in plain_outcomes(sample, source, target)]
