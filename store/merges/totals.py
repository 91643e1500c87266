"""What a merge record says of all rows of its date, whichever location they are in."""

from __future__ import annotations

from collections.abc import Mapping

from store.digest import add, from_hex, to_hex
from store.merges.records import MergeRecord


def totals(record: MergeRecord | None) -> tuple[int, dict[str, str]]:
    """Rows of a date in history, and digests of the columns that all of its locations have; 0 without a record."""
    outputs = record.outputs if record is not None else ()
    names = {name for output in outputs for name in output.digests}
    common = sorted(name for name in names if all(name in output.digests for output in outputs))
    digests = {name: to_hex(add(*(from_hex(output.digests[name]) for output in outputs))) for name in common}
    return sum(output.rows for output in outputs), digests


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether digests are equal for each column that both have."""
    return all(one[name] == other[name] for name in one.keys() & other.keys())
