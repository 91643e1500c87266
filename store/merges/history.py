"""The history of one date: all merge records of it, read once, and what a record says of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sparkhaven.store.digest.column_digest import add, from_hex, to_hex
from sparkhaven.store.merges.merge_records import MergeRecord, generations, load_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema


@frozen
class DateHistory:
    """The records of a date by generation, complete or not.

    Under the table's lock nobody else changes them: a merge reads them once and goes on with ``after``.
    """

    value: str
    records: tuple[MergeRecord, ...] = ()

    @property
    def complete(self) -> tuple[MergeRecord, ...]:
        return tuple(record for record in self.records if record.complete)

    @property
    def current(self) -> MergeRecord | None:
        """The newest complete record, which decides what the date's history is; None before the first merge."""
        complete = self.complete
        return complete[-1] if complete else None

    @property
    def last(self) -> MergeRecord | None:
        return self.records[-1] if self.records else None

    @property
    def alive(self) -> frozenset[str]:
        """Internal partitions that have the date's history."""
        current = self.current
        return frozenset(output.internal for output in current.outputs) if current else frozenset()

    def after(self, *records: MergeRecord) -> DateHistory:
        """The same once these records are stored; each takes the place of one of its generation."""
        stored = {record.generation: record for record in (*self.records, *records)}
        return DateHistory(self.value, tuple(stored[generation] for generation in sorted(stored)))


def load_history(place: TablePlace, value: str) -> DateHistory:
    numbers = generations(place, value)
    return DateHistory(value, tuple(load_record(place, value, number) for number in numbers))


V = TypeVar("V")


def totals(record: MergeRecord | None) -> tuple[int, dict[str, str]]:
    """Rows of a date in history, and digests of the columns that all of its locations have; 0 without a record."""
    outputs = record.outputs if record is not None else ()
    names = {name for output in outputs for name in output.digests}
    common = sorted(name for name in names if all(name in output.digests for output in outputs))
    digests = {name: to_hex(add(*(from_hex(output.digests[name]) for output in outputs))) for name in common}
    return sum(output.rows for output in outputs), digests


def current_names(record: MergeRecord, schema: TableSchema) -> MergeRecord:
    """The record with digests and statistics under the names that columns have now; names of files stay."""
    labels = schema.labels
    if not labels:
        return record
    proof = record.proof and replace(
        record.proof,
        digests_in=renamed(record.proof.digests_in, labels),
        digests_out=renamed(record.proof.digests_out, labels),
        left_out=replace(record.proof.left_out, digests=renamed(record.proof.left_out.digests, labels)),
    )
    outputs = (replace(o, digests=renamed(o.digests, labels), stats=renamed(o.stats, labels)) for o in record.outputs)
    return replace(record, outputs=tuple(outputs), proof=proof)


def renamed(values: Mapping[str, V], labels: Mapping[str, str]) -> dict[str, V]:
    return {labels.get(name, name): value for name, value in values.items()}


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
