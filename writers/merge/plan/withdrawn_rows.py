"""What a merge says of the withdrawn rows of its sources, which it leaves out: how many, and their digests."""

from __future__ import annotations

from collections.abc import Sequence

from sparkhaven.store.digest.column_digest import add, digest_array, to_hex
from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.scan.column_file import open_column, open_parquet
from sparkhaven.store.types.model import TableSchema
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
    for source, rows in gone:
        for name, digest in digests_of(fs, schema, source, rows).items():
            totals[name] = add(totals[name], digest)
    count = sum(rows.rows for _, rows in gone)
    return LeftOut(count, 0, {name: to_hex(digest) for name, digest in totals.items()}, count)


def digests_of(fs: Fs, schema: TableSchema, source: MergeSource, rows: RowRanges) -> dict[str, int]:
    """The digest of each stored column over some rows of a location."""
    sizes = {name: state.size for name, state in source.files.items()}
    parquet = open_parquet(fs, source.directory, sizes, source.rows) if in_parquet(sizes) else None
    totals: dict[str, int] = {}
    for column in schema.stored:
        if parquet is not None:
            opened = parquet.column(column)
        else:
            opened = open_column(fs, source.directory, column, sizes, source.rows)
        digest = 0
        for part in rows.steps(SIZES.rows):
            digest = add(digest, digest_array(column, opened.take(part)))
        totals[column.name] = digest
    return totals
