"""Where rows go: which instant gives the date, what names internal partitions, which column groups history."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparkhaven.ingest.formats.parquet.typed_values import SourceColumn, exact_value
from sparkhaven.ingest.inference.field_facts import Facts
from sparkhaven.ingest.inference.field_readings import Reading
from sparkhaven.ingest.inference.types import hints
from sparkhaven.ingest.inference.types.moments import DAY
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.exact_values import from_json, from_text

GROUPS = (2, 1000)  # different values of a grouping column
REPEATS = 10  # rows of each of them, at least
SOURCES = (2, 16)  # different values of a column that names internal partitions
ENOUGH = 1000  # rows from which on a column is proposed for that
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column by name, the field that it comes from, how it is read, and what is known of its values."""

    name: str
    source: str
    reading: Reading
    facts: Facts
    symbols: bool = False


@dataclass(frozen=True, slots=True)
class DateColumn:
    """The column that gives dates: its name, and the range of its instants in ns.

    ``routing``: how a column that is read for this only, and not stored, comes from its field.
    """

    name: str
    low: int
    high: int
    routing: tuple[str, Reading] | None = None


def date_column(sample: Sample, columns: Sequence[Candidate], zone: str) -> DateColumn | None:
    """The best column for dates: an Instant without nulls, by its name, its order, its place; else dates."""
    instants = [c for c in columns if c.reading.type == "Instant" and not c.facts.nulls]
    ranked: list[tuple[tuple[bool, bool, int], DateColumn]] = []
    for index, column in enumerate(instants):
        values = _instants(sample, column.source, column.reading)
        if values is not None and len(values):
            falls = int((np.diff(values) < 0).sum())
            rank = (not hints.event(column.source), falls > len(values) // 10, index)
            ranked.append((rank, DateColumn(column.name, int(values.min()), int(values.max()))))
    if ranked:
        return min(ranked, key=lambda candidate: candidate[0])[1]
    taken = {column.name for column in columns}
    for column in columns:
        days = column.reading.type == "LocalDate" and column.reading.form is None
        days |= column.reading.type == "String" and all(map(DAY.match, column.facts.counts))
        if not days or column.facts.nulls:
            continue
        reading = Reading("Instant", zone=zone)
        values = _instants(sample, column.source, reading)
        if values is not None and len(values):
            name = f"{column.name}_instant"
            if name not in taken:
                return DateColumn(name, int(values.min()), int(values.max()), (column.source, reading))
    return None


def grouping_column(columns: Sequence[Candidate]) -> Candidate | None:
    """The column of symbols that history keeps together: by its name, else the finest one that repeats."""
    fit = [
        column
        for column in columns
        if column.symbols
        and not column.facts.nulls
        and GROUPS[0] <= column.facts.distinct <= GROUPS[1]
        and column.facts.values >= REPEATS * column.facts.distinct
    ]
    named = [column for column in fit if hints.instrument(column.source)]
    if named:
        return named[0]
    return max(fit, key=lambda column: column.facts.distinct, default=None)


def internal_column(columns: Sequence[Candidate], rows: int, grouping: str | None) -> Candidate | None:
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
    values: list[object] = []
    if sample.form == "parquet":
        for part in sample.fields[source]:
            column = SourceColumn(part.array, part.far)
            values += [exact_value(column, row, target, False) for row in range(len(part.array))]
        return values
    convert: Callable[..., object] = from_json if sample.form == "json" else from_text
    converted: dict[object, object] = {}
    for value in sample.values(source):
        if value not in converted:
            converted[value] = None if value is None else convert(value, target)
        values.append(converted[value])
    return values
