"""What a merge record says of all rows of its date, whichever location they are in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sparkhaven.store.digest.column_digest import add, from_hex, to_hex
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord
from sparkhaven.store.types.model import TableSchema

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
    )
    return replace(record, outputs=tuple(_output(output, labels) for output in record.outputs), proof=proof)


def _output(output: MergeOutput, labels: Mapping[str, str]) -> MergeOutput:
    return replace(output, digests=renamed(output.digests, labels), stats=renamed(output.stats, labels))


def renamed(values: Mapping[str, V], labels: Mapping[str, str]) -> dict[str, V]:
    """Values by name, under the new names of ``labels``."""
    return {labels.get(name, name): value for name, value in values.items()}


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether digests are equal for each column that both have."""
    return all(one[name] == other[name] for name in one.keys() & other.keys())
