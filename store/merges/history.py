"""The history of one date: all merge records of it, read once, and what a record says of all rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from sparkhaven.store.digest.column_digest import add, digest_nulls, from_hex, to_hex
from sparkhaven.store.merges.merge_records import MergeRecord, generations, load_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, TableSchema


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


def column_digests(record: MergeRecord | None, columns: Collection[Column]) -> dict[str, str]:
    """The digest of each column in all rows of a date in history: null in a location that lacks the column."""
    digests = {}
    for column in columns:
        total = 0
        for output in record.outputs if record is not None else ():
            name = next((name for name in (column.name, *column.labels) if name in output.digests), None)
            total = add(total, digest_nulls(column, output.rows) if name is None else from_hex(output.digests[name]))
        digests[column.name] = to_hex(total)
    return digests


def in_columns(record: MergeRecord, schema: TableSchema) -> MergeRecord:
    """The record as the columns of now have it; names of files stay.

    Digests and statistics are under the names of now. The proof has every stored column, in all of its rows: one that
    the record does not know is null there.
    """
    labels, proof = schema.labels, record.proof
    if labels:
        outputs = (
            replace(o, digests=renamed(o.digests, labels), stats=renamed(o.stats, labels)) for o in record.outputs
        )
        record = replace(record, outputs=tuple(outputs))
    if proof is None:
        return record

    def whole(digests: Mapping[str, str], rows: int) -> dict[str, str]:
        known = renamed(digests, labels)
        newer = (column for column in schema.stored if column.name not in known)
        return known | {column.name: to_hex(digest_nulls(column, rows)) for column in newer}

    left_out = proof.left_out
    if left_out.rows:
        left_out = replace(left_out, digests=whole(left_out.digests, left_out.rows))
    kept = whole(proof.digests_in, proof.rows_out), whole(proof.digests_out, proof.rows_out)
    return replace(record, proof=replace(proof, digests_in=kept[0], digests_out=kept[1], left_out=left_out))


def renamed(values: Mapping[str, V], labels: Mapping[str, str]) -> dict[str, V]:
    return {labels.get(name, name): value for name, value in values.items()}


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
