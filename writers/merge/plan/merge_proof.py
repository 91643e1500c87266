"""Digests of the input and output of a merge, and the proof made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest import (
    CACHED_ROWS,
    add,
    add_symbol_hashes,
    digest_array,
    digest_bytes,
    digest_counted_texts,
    digest_entries,
    digest_nulls,
    digest_rows,
    digest_sets,
    digest_summed,
    digest_values,
    from_hex,
    symbol_hashes,
    to_hex,
)
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.merges.history import column_digests, in_columns, row_content
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.merge_run import LeftOut, Proof
from sparkhaven.store.native.digests import Hashes, Sum
from sparkhaven.store.native.rows import count_ids
from sparkhaven.store.types.codings.coding import large_binary
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, decode_texts
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL


class Digests:
    """Sums the digests of columns, block by block, in any order.

    ``hashes``: of rows, to which those of values are added.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.totals: dict[str, int] = {}

    def _add(self, column: Column, digest: int) -> None:
        self.totals[column.name] = add(self.totals.get(column.name, 0), digest)

    def fixed(self, column: Column, entries: npt.NDArray[Any], hashes: Hashes | None = None) -> None:
        self._add(column, digest_entries(column, entries, hashes))

    def summed(self, column: Column, hashed: Sum) -> None:
        """What the core says of values that it has looked at by itself."""
        self._add(column, digest_summed(column, hashed))

    def ranks(self, column: Column, ranks: npt.NDArray[np.int32], texts: pa.Array) -> npt.NDArray[np.int64]:
        """Symbol ids (sentinel = null) into ``texts``; returns how often each text is there, and null."""
        assert ranks.dtype == INT_NULL.dtype  # noqa: S101
        counts = np.zeros(len(texts) + 1, np.int64)
        count_ids(ranks, counts)
        self.counted(column, texts, counts)
        return counts

    def counted(self, column: Column, texts: pa.Array, counts: npt.NDArray[np.int64]) -> None:
        """Distinct texts and how many rows have each; one more count, the last, for null."""
        self._add(column, digest_counted_texts(column, texts, counts[:-1]))
        self._add(column, digest_nulls(column, int(counts[-1])))

    def sets(
        self, column: Column, words: npt.NDArray[np.uint64], texts: pa.Array, hashes: Hashes | None = None
    ) -> None:
        """Words of sets and the symbol table of their bits."""
        self._add(column, digest_sets(column, words, texts, hashes))

    def texts(self, column: Column, texts: pa.Array) -> None:
        self._add(column, digest_array(column, texts))

    def encoded(self, column: Column, values: pa.Array, where: object, hashes: Hashes | None = None) -> int:
        """Values as they lie in the files of a column without symbols, in large binary.

        Returns the number of nulls. CorruptFileError: bytes at ``where`` are no text.
        """
        if column.type.coding is not None:
            ends = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
            null = np.diff(ends) == 0
            whole = large_binary(ends, np.frombuffer(values.buffers()[2], np.uint8), null if null.any() else None)
            self._add(column, digest_bytes(column, whole, hashes))
            return int(np.count_nonzero(null))
        digest_and_nulls = digest_values(column, values, hashes) if charset_of(column) == "UTF_8" else None
        if digest_and_nulls is None:
            texts = decode_texts(values, charset_of(column), where)
            digest_and_nulls = digest_array(column, texts, hashes), texts.null_count
        self._add(column, digest_and_nulls[0])
        return digest_and_nulls[1]


class HashedColumn:
    """One column of a source. It is digested, and the hashes of its values are added to those of rows.

    ``counted``: symbols are checked and digested too, once ``close`` was called.
    """

    def __init__(self, source: ColumnSource, column: Column, digests: Digests, *, counted: bool) -> None:
        self.source, self.column, self.digests, self._counted = source, column, digests, counted
        self._symbols = source.symbols() if column.storage in (Storage.SYMBOL, Storage.SET) else None
        self._table = symbol_hashes(column, self._symbols) if column.storage is Storage.SYMBOL else None
        self._counts = np.zeros(0 if self._symbols is None else len(self._symbols) + 1, np.int64)

    def block(self, first: int, stop: int) -> Callable[[int, Hashes], object]:
        """What adds the hashes of the rows from a number on, counted from ``first``."""
        if self.column.storage is Storage.BLOB:
            return partial(self._texts, self.source.blobs(first, stop))
        if self._table is None or not self._counted:
            return partial(self._entries, self.source.entries(first, stop))
        ids = self.source.ids(first, stop, len(self._counts) - 1)
        count_ids(ids, self._counts)
        return partial(self._entries, ids)

    def close(self) -> None:
        """Digests the symbols that were counted."""
        if self._counted and self._table is not None:
            self.digests.counted(self.column, self._symbols, self._counts)

    def _texts(self, values: Any, low: int, hashes: Hashes) -> None:
        self.digests.encoded(self.column, values.slice(low, len(hashes)), f"column {self.column.name}", hashes)

    def _entries(self, entries: npt.NDArray[Any], low: int, hashes: Hashes) -> None:
        part = entries[low : low + len(hashes)]
        if self._table is not None:
            add_symbol_hashes(part, self._table, hashes)
        elif self.column.storage is Storage.SET:
            self.digests.sets(self.column, part, self._symbols, hashes)
        else:
            self.digests.fixed(self.column, part, hashes)


def digest_block(columns: Sequence[HashedColumn], first: int, stop: int) -> int:
    """The digest of rows ``[first, stop)``, all columns together."""
    adding = [column.block(first, stop) for column in columns]
    digest, hashes = 0, np.empty(min(CACHED_ROWS, stop - first), np.uint64)
    for low in range(0, stop - first, CACHED_ROWS):
        part = hashes[: stop - first - low]
        part.fill(0)
        for add_to in adding:
            add_to(low, part)
        digest = add(digest, digest_rows(part))
    return digest


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Digests of all parts together, by column."""
    digests: dict[str, int] = {}
    for part in parts:
        for name, digest in part.items():
            digests[name] = add(digests.get(name, 0), digest)
    return digests


def as_hex(digests: Mapping[str, int], schema: TableSchema) -> dict[str, str]:
    """Digests of all stored columns as text; a column without rows has digest 0."""
    return {column.name: to_hex(digests.get(column.name, 0)) for column in schema.stored}


def add_proofs(one: Proof, other: Proof, schema: TableSchema) -> Proof:
    """The proof of the rows of both. A column that one of them lacks is null in its rows."""
    return Proof(
        one.rows_in + other.rows_in,
        one.rows_out + other.rows_out,
        _added((one.rows_out, one.digests_in), (other.rows_out, other.digests_in), schema),
        _added((one.rows_out, one.digests_out), (other.rows_out, other.digests_out), schema),
        add_left_out(one.left_out, other.left_out, schema),
    )


def add_left_out(one: LeftOut, other: LeftOut, schema: TableSchema) -> LeftOut:
    """The rows of both. A column that one of them lacks is null in its rows."""
    counts = one.rows + other.rows, one.identical + other.identical
    withdrawn = one.withdrawn + other.withdrawn, one.deletions + other.deletions
    ids = {*one.filled, *other.filled}
    filled = {column: one.filled.get(column, 0) + other.filled.get(column, 0) for column in ids}
    digests = _added((one.rows, one.digests), (other.rows, other.digests), schema)
    row_digest = to_hex(add(from_hex(one.row_digest), from_hex(other.row_digest)))
    return LeftOut(*counts, digests, *withdrawn, filled, row_digest)


def left_out_before(record: MergeRecord, schema: TableSchema) -> LeftOut:
    """What a record says of rows left out, in the columns of now."""
    proof = in_columns(record, schema).proof
    return LeftOut() if proof is None else proof.left_out


def as_left_out(record: MergeRecord, schema: TableSchema) -> LeftOut:
    """All rows of a record, as a later one leaves them out."""
    content = row_content(record)
    return LeftOut(content.rows, 0, column_digests(record, schema.stored), row_digest=content.digest)


def proof_of(record: MergeRecord, left_out: LeftOut, schema: TableSchema) -> Proof:
    """The proof of outputs that no merge has written: they are what was taken, beside the rows that are left out."""
    digests = column_digests(record, schema.stored)
    return Proof(record.rows + left_out.rows, record.rows, digests, digests, left_out)


def _added(
    one: tuple[int, Mapping[str, str]], other: tuple[int, Mapping[str, str]], schema: TableSchema
) -> dict[str, str]:
    """The digests of the rows of both, each with how many they are."""
    columns = {column.name: column for column in (*schema.retired, *schema.stored)}
    total: dict[str, str] = {}
    for name in sorted({*one[1], *other[1]}):
        parts = [
            from_hex(digests[name]) if name in digests else digest_nulls(columns[name], rows)
            for rows, digests in (one, other)
            if rows
        ]
        total[name] = to_hex(add(*parts))
    return total
