"""The default rules of every validation: history holds exactly the rows that the merge read.

They compare the row count, the rows per value of every grouping column, and the order-free digest of every column.
Intraday is read again as long as it has the merged rows; after its removal the merge record takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkhaven.store.digest.column_digest import add, from_hex, to_hex
from sparkhaven.store.merges.column_corrections import corrected
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.validations import RuleResult
from sparkhaven.store.native.gather import count_ids
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.sources.parquet_source import open_source
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rows.key_hashes import counted, feed, row_keys
from sparkhaven.writers.validation.rules.rule_scope import SHOWN, some

TEXT_ROWS = 1 << 16


def digest(rows: RowSet, column: Column) -> str:
    """The digest of a column as 32 hex digits."""
    digests = Digests(rows.schema)
    for source in rows.sources:
        opened = open_source(rows.fs, source, column)
        if column.storage is Storage.SYMBOL:
            symbols = opened.symbols()
            counts = np.zeros(len(symbols) + 1, np.int64)
            for first, stop in source.blocks(rows.sizes.rows):
                count_ids(opened.ids(first, stop, len(symbols)), counts)
            digests.counted(column, symbols, counts)
        elif column.storage is Storage.BLOB:
            for first, stop in source.blocks(rows.sizes.rows):
                for low in range(first, stop, TEXT_ROWS):
                    high = min(low + TEXT_ROWS, stop)
                    if column.type.coding is not None:
                        digests.encoded(column, opened.blobs(low, high), f"column {column.name}")
                    else:
                        digests.texts(column, opened.texts(low, high))
        elif column.storage is Storage.SET:
            for first, stop in source.blocks(rows.sizes.rows):
                digests.sets(column, opened.entries(first, stop), opened.symbols())
        else:
            for first, stop in source.blocks(rows.sizes.rows):
                digests.fixed(column, opened.entries(first, stop))
    return to_hex(digests.totals.get(column.name, 0))


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
    digests = list(_digests(record, history, intraday, against))
    equal = {result.column for result in digests if result.passed}
    changed = {correction.id for correction in record.corrections}
    for column in history.schema.grouping:
        counted_in = intraday if not left_out.rows and column.id not in changed else None
        yield _per_value(column, history, counted_in, column.name in equal)
    yield from digests
    if later:
        message = f"{later} rows came after the merge. They block truncate until they are merged"
        yield RuleResult("LaterRows", None, later, None, None, True, message)


def _digests(record: MergeRecord, history: RowSet, intraday: RowSet | None, against: str) -> Iterator[RuleResult]:
    for column in history.schema.stored:
        recorded = record.proof.digests_in[column.name] if record.proof else None
        expected = _without(digest(intraday, column), record, column) if intraday else recorded
        message = f"digests of history and of {against}"
        if intraday and column.id in {correction.id for correction in record.corrections}:
            message += ", with what a command has changed in it,"
        yield _equal("DigestEqual", column.name, digest(history, column), expected, message)


def _without(whole: str, record: MergeRecord, column: Column) -> str:
    """The digest of all rows of intraday without those that the merge has left out, with what a command changed."""
    left_out = record.proof.left_out if record.proof else LeftOut()
    dropped = from_hex(left_out.digests[column.name]) if left_out.rows else 0
    return to_hex(corrected(add(from_hex(whole), -dropped), record.corrections, column.id))


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
