"""The default rules of every validation: history holds exactly the rows that the merge read.

They compare the row count, the rows per value of every grouping column, and order-free digests: of every column, and of
rows with all of their columns together.
Intraday is read again as long as it has the merged rows; after its removal the merge record takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkhaven.store.digest import CACHED_ROWS, add, from_hex, to_hex
from sparkhaven.store.merges.history import has_digests_of, row_content
from sparkhaven.store.merges.merge_records import MergeRecord, corrected
from sparkhaven.store.merges.merge_run import LeftOut
from sparkhaven.store.merges.validations import RuleResult
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.plan.merge_proof import Digests, HashedColumn, as_hex, digest_block
from sparkhaven.writers.merge.sources.parquet_source import open_source
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rows.key_hashes import counted, feed, row_keys
from sparkhaven.writers.validation.rules.rule_scope import SHOWN, some

COLUMN_DIGESTS, ROW_DIGESTS = DIGEST_RULES = ("DigestEqual", "RowDigestEqual")


@dataclass(frozen=True, slots=True)
class RowSetDigests:
    """Digests of rows as 32 hex digits: of each stored column, and of all columns together."""

    columns: Mapping[str, str]
    rows: str


def digest_rows_of(rows: RowSet) -> RowSetDigests:
    """Reads all stored columns. Raises what ``open_source`` raises."""
    digests, total, columns = Digests(rows.schema), 0, rows.schema.stored
    for source in rows.sources:
        hashed = [
            HashedColumn(open_source(rows.fs, source, column), column, digests, counted=True) for column in columns
        ]
        for first, stop in source.blocks(min(rows.sizes.rows, CACHED_ROWS)):  # of all columns at once
            total = add(total, digest_block(hashed, first, stop))
        for column in hashed:
            column.close()
    return RowSetDigests(as_hex(digests.totals, rows.schema), to_hex(total))


def merge_rules(record: MergeRecord, history: RowSet, intraday: RowSet | None, later: int) -> Iterator[RuleResult]:
    """Results of the default rules. ``intraday`` None: it was removed. ``later`` rows came after the merge.

    ``record`` is one in the columns of now.
    """
    proof, against = record.proof, "intraday" if intraday else "the merge's record, since intraday was removed"
    left_out = proof.left_out if proof else LeftOut()
    if left_out.rows:
        against += f", without the {left_out.rows:,} rows that were left out"
    expected = intraday.rows - left_out.rows if intraday else proof.rows_in - left_out.rows if proof else -1
    yield _equal("RowCount", None, history.rows, expected, f"rows of history and of {against}")
    there, merged = digest_rows_of(history), digest_rows_of(intraday) if intraday else None
    digests = list(_digests(record, history, there, merged, against))
    equal = {result.column for result in digests if result.passed}
    changed = {correction.id for correction in record.corrections}
    for column in history.schema.grouping:
        counted_in = intraday if not left_out.rows and column.id not in changed else None
        yield _per_value(column, history, counted_in, column.name in equal)
    yield from digests
    if all(result.passed for result in digests):  # else rows differ as well, and the columns tell more
        yield _rows_equal(record, history, there, merged, against)
    if later:
        message = f"{later} rows came after the merge. They block truncate until they are merged"
        yield RuleResult("LaterRows", None, later, None, None, True, message)


def _digests(
    record: MergeRecord, history: RowSet, there: RowSetDigests, merged: RowSetDigests | None, against: str
) -> Iterator[RuleResult]:
    for column in history.schema.stored:
        recorded = record.proof.digests_in[column.name] if record.proof else None
        expected = _without(merged.columns[column.name], record, column) if merged else recorded
        message = f"digests of history and of {against}"
        if merged and column.id in {correction.id for correction in record.corrections}:
            message += ", with what a command has changed in it,"
        yield _equal(COLUMN_DIGESTS, column.name, there.columns[column.name], expected, message)


def _without(whole: str, record: MergeRecord, column: Column) -> str:
    """The digest of all rows of intraday without those that the merge has left out, with what a command changed."""
    left_out = record.proof.left_out if record.proof else LeftOut()
    dropped = from_hex(left_out.digests[column.name]) if left_out.rows else 0
    return to_hex(corrected(add(from_hex(whole), -dropped), record.corrections, column.id))


def _rows_equal(
    record: MergeRecord, history: RowSet, there: RowSetDigests, merged: RowSetDigests | None, against: str
) -> RuleResult:
    """Whether each value is in the row that it was merged in: digests of columns do not tell rows apart."""
    schema, left_out = history.schema, record.proof.left_out if record.proof else LeftOut()
    if merged is not None and not record.corrections and has_digests_of(schema, left_out.digests, schema.version):
        expected = to_hex(add(from_hex(merged.rows), -from_hex(left_out.row_digest)))
    elif all(has_digests_of(schema, output.digests, output.named_by) for output in record.outputs):
        expected, against = row_content(record).digest, "the merge's record"
    else:
        message = "not compared: since the merge a column was dropped, whose values are in the digest of its record"
        return RuleResult(ROW_DIGESTS, None, None, None, None, True, message)
    return _equal(ROW_DIGESTS, None, there.rows, expected, f"digests of whole rows of history and of {against}")


def _per_value(column: Column, history: RowSet, intraday: RowSet | None, same: bool) -> RuleResult:
    name = column.name
    if intraday is None:
        message = (
            "intraday was removed, or has rows left out or corrected. The digest is compared instead of its counts"
        )
        return RuleResult("RowCountPerGroup", name, None, None, None, same, message)
    values, differing, examples = 0, 0, list[tuple[int, int]]()
    for here, there in counted([feed(history, [name]), feed(intraday, [name])], history.sizes.hashes):
        values += len(here)
        if len(here) == len(there) and all(
            np.array_equal(getattr(here, part), getattr(there, part)) for part in ("low", "high", "counts")
        ):
            continue
        one, other = ({(lo, hi): n for lo, hi, n in zip(p.low, p.high, p.counts, strict=True)} for p in (here, there))
        odd = [key for key in {**one, **other} if one.get(key) != other.get(key)]
        differing += len(odd)
        examples += odd[: SHOWN - len(examples)]
    message = f"{values} values, rows equal"
    if differing:
        message = f"rows differ for {_names(column, (history, intraday), examples)}"
        message += f" and {differing - len(examples)} more" if differing > len(examples) else ""
    return RuleResult("RowCountPerGroup", name, differing, 0, 0, not differing, message)


def _names(column: Column, sides: tuple[RowSet, RowSet], keys: list[tuple[int, int]]) -> str:
    hashes, values = set(keys), dict[tuple[int, int], Any]()
    for rows in sides:
        for block in rows.blocks([column.name]):
            low, high = row_keys(block, [column.name])
            for row in np.flatnonzero(np.isin(low, [key[0] for key in hashes])):
                key = int(low[row]), int(high[row])
                if key in hashes and key not in values:
                    values[key] = block.cells[column.name].arrow()[int(row)].as_py()
            if len(values) == len(hashes):
                return some(list(values.values()))
    return some(list(values.values()))


def _equal(rule: str, column: str | None, found: Any, expected: Any, message: str) -> RuleResult:
    passed = found == expected
    message += " are equal" if passed else " differ"
    return RuleResult(rule, column, found, expected, expected, passed, message)
