"""Rows of the sources of a merge, as readers read them: those that it leaves out as withdrawn, and those that it keeps.

A merge itself reads its sources in another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sparkhaven.store.digest.column_digest import add, digest_array, to_hex
from sparkhaven.store.digest.row_hashes import digest_rows, row_hashes
from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.scan.column_file import ColumnFile, open_column, open_parquet
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.sources.merge_source import MergeSource


def withdrawn_rows(fs: Fs, schema: TableSchema, sources: Sequence[MergeSource]) -> LeftOut:
    """The rows of sources that none of them keeps, before a rule leaves out others. Raises what a column raises."""
    gone = [(source, source.kept.outside(source.start, source.stop)) for source in sources if source.kept is not None]
    gone = [(source, rows) for source, rows in gone if rows]
    if not gone:
        return LeftOut()
    totals = dict.fromkeys((column.name for column in schema.stored), 0)
    filled = dict.fromkeys((column.id for column in schema.stored), 0)
    for source, rows in gone:
        for column, digest, values in _summed(fs, schema, source, rows):
            totals[column.name] = add(totals[column.name], digest)
            filled[column.id] += values
    count = sum(rows.rows for _, rows in gone)
    digests, row_digest = {name: to_hex(digest) for name, digest in totals.items()}, _digest(fs, schema, gone)
    return LeftOut(count, 0, digests, count, filled=filled, row_digest=row_digest)


def kept_rows_digest(fs: Fs, schema: TableSchema, sources: Sequence[MergeSource]) -> str:
    """The digest of the rows that sources keep, with what was computed of them, all stored columns together."""
    return _digest(fs, schema, [(source, source.rows_kept) for source in sources])


def _digest(fs: Fs, schema: TableSchema, rows_of: Iterable[tuple[MergeSource, RowRanges]]) -> str:
    total = 0
    for source, rows in rows_of:
        opened = list(_opened(fs, schema, source))
        for part in rows.steps(SIZES.rows):
            arrays = [file.take(part) for _, file in opened]
            total = add(total, digest_rows(row_hashes(schema.stored, arrays, part.rows)))
    return to_hex(total)


def _opened(fs: Fs, schema: TableSchema, source: MergeSource) -> Iterator[tuple[Column, ColumnFile]]:
    sizes = {name: state.size for name, state in source.files.items()}
    parquet = open_parquet(fs, source.directory, sizes, source.rows) if in_parquet(sizes) else None
    for column in schema.stored:
        own = source.of(column)
        if parquet is not None and own is source:
            yield column, parquet.column(column.at(own.named_by))
        else:
            files = {name: state.size for name, state in own.files.items()}
            yield column, open_column(fs, own.directory, column.at(own.named_by), files, own.rows)


def _summed(fs: Fs, schema: TableSchema, source: MergeSource, rows: RowRanges) -> Iterator[tuple[Column, int, int]]:
    """Digest and number of values of each stored column over some rows of a location."""
    for column, opened in _opened(fs, schema, source):
        digest = filled = 0
        for part in rows.steps(SIZES.rows):
            values = opened.take(part)
            digest = add(digest, digest_array(column, values))
            filled += len(values) - values.null_count
        yield column, digest, filled
