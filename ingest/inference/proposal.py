"""What is proposed for a table: a column for each field of a sample, where rows go, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparkhaven.ingest.inference.column_names import column_names
from sparkhaven.ingest.inference.field_facts import FRACTION, TEXT, WHOLE, Facts, facts_of
from sparkhaven.ingest.inference.field_readings import Reading, misfit, misfits
from sparkhaven.ingest.inference.types.column_type import choose
from sparkhaven.ingest.inference.types.type_choice import TypeChoice
from sparkhaven.ingest.sample_rows import Sample, shown
from sparkhaven.ingest.spec.stream_spec import Meta
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
    reason: str
    notes: tuple[str, ...]
    facts: Facts
    blob: bool = False

    @property
    def stored(self) -> bool:
        return self.reading is not None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Columns in the order of the feed, and the sample by which they were chosen."""

    sample: Sample
    columns: tuple[FieldColumn, ...]
    position: tuple[tuple[str, str, Meta], ...] = ()

    @property
    def stored(self) -> tuple[FieldColumn, ...]:
        return tuple(column for column in self.columns if column.stored)


def propose(sample: Sample, *, partitioning: str = "Date", zone: str = "UTC", blobs: Sequence[str] = ()) -> Proposal:
    """A column for each field. ``blobs`` names columns, or fields, that get no symbol table.

    FeedError for a sample without a field that can be stored.
    """
    sample = with_nulls(sample, zone)
    position = POSITION if sample.messages else ()
    names = column_names(sample.fields, [partitioning, *(name for name, _, _ in position)])
    columns = tuple(_column(sample, source, name, zone, blobs) for source, name in names.items())
    if not any(column.stored for column in columns):
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
    return FieldColumn(name, source, chosen.reading, chosen.reason, tuple(notes), facts, blob)


def _no_symbols(facts: Facts, reading: Reading) -> str:
    if facts.widest > WIDE:
        return f"texts have up to {facts.widest:,} characters"
    if reading.form is not None and set(facts.kinds) - {TEXT, WHOLE, FRACTION}:
        return "JSON texts repeat little"
    if facts.values >= FEW and facts.distinct > facts.values / 2:
        return f"{facts.distinct:,} of {facts.values:,} texts are different"
    return ""
