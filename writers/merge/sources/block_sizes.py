"""How much of a date the steps of a merge work on at once."""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.scan.column_file import SMALL


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Rows of a merge do not depend on them. Row groups and row ranges of statistics do, so commands keep the defaults.

    Read at once: ``rows``, ``texts`` rows without a symbol table, ``symbols``. Written at once: ``chunk_rows``,
    ``chunk_bytes`` of texts, a ``piece`` of bytes of Parquet, which has at most ``group_rows`` rows a row group.
    """

    rows: int = 1 << 18
    texts: int = 1 << 14
    symbols: int = 1 << 16
    chunk_rows: int = 1 << 17
    chunk_bytes: int = 1 << 20
    piece: int = 4 << 20
    group_rows: int = 1 << 18
    stretch_rows: int = 8 << 20  # that one task counts
    slice_bytes: int | None = None  # of texts that are sorted at once; None: by memory
    index_bytes: int | None = None  # of rows whose keys are sorted at once; None: by memory
    writeback_bytes: int = 1 << 20  # smaller files are written faster together, by the sync
    parted_rows: int = 1 << 20  # of a source, at most, that are parted at once
    copied_bytes: int = 8 << 20  # of a block of a source that is parted; larger ones are mapped
    small_bytes: int = SMALL  # files that are read together with others
    small_sources: int = 4  # that are worth being read together
    moved_rows: int = 1 << 18  # the entries of fewer lie in the processor's cache anyway
    hashed_beside: int = 1 << 18  # symbols that are worth a thread that hashes them while others are written
    groups: int = 4  # tasks per worker that small dates are given to, to even them out
    sorted_bytes: int = 8  # of texts a row: to sort them takes as long as to put the row in order


SIZES = BlockSizes()
