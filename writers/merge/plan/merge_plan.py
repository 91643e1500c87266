"""The plan of one merge of one date, as a value for the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.early_sync import SyncMode
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_proofs import LeftOut
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.merge_run import Destination
from sparkhaven.store.types.dedupe import DedupeRule
from sparkhaven.store.types.model import Column, Distribution, Storage, TableSchema
from sparkhaven.writers.merge.sources.block_sizes import SIZES, BlockSizes
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.sort_keys import SortKey

Format = Literal["deephaven", "parquet", "both"]
FORMATS: tuple[Format, ...] = get_args(Format)
DEFAULT_MEMORY = 1 << 30
BASE_MEMORY = 192 << 20  # an interpreter with numpy and Arrow, and one block of each array
MOVE_BYTES = 8  # of a row that is put in order by moves: from where, and to where
ORDER_BYTES = 44  # rows and order kept, sorted words and copies while ordering
PARALLEL_ROWS = 1 << 20
MAX_SUPPLEMENTS = 4  # after so many the next merge of a date merges it as a whole


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Options of a merge. ``memory``: bytes per worker; ``workers``: ranges that run at once; ``parallel_rows``: a date
    with fewer is one task, whatever the workers.

    ``sort`` None keeps the order of the date's last merge, an empty tuple means unsorted; ``dedupe`` None keeps its
    rule, or that of the schema, and one without keys means none. ``rewrite`` merges a merged date again, as a new
    generation; ``discard_corrections`` from intraday, without what commands changed or deleted. ``fill_missing``
    writes an empty location for a date without rows. ``format`` None is that of the date's last merge, of a first one
    the schema's.

    ``distribution`` None is that of the date's last merge, of a first one the schema's; ``only``: names of the writable
    partitions that may be chosen, empty for all of them. ``sync_mode``: when column files are synced beside the sync of
    all. ``max_columns``: columns of a date that are read and written at once; None: as many as there are workers.
    """

    sort: tuple[SortKey, ...] | None = None
    dedupe: DedupeRule | None = None
    rewrite: bool = False
    discard_corrections: bool = False
    allow_empty: bool = False
    fill_missing: bool = False
    memory: int = DEFAULT_MEMORY
    workers: int = 1
    max_supplements: int = MAX_SUPPLEMENTS
    verify_sources: bool = True
    format: Format | None = None
    distribution: Distribution | None = None
    only: tuple[str, ...] = ()
    sync_mode: SyncMode = "final"
    max_columns: int | None = None
    parallel_rows: int = PARALLEL_ROWS
    sizes: BlockSizes = SIZES

    @property
    def usable(self) -> int:
        """Bytes of a worker's memory for rows."""
        return max(self.memory - BASE_MEMORY, self.memory // 8, 1 << 20)


def schema_format(schema: TableSchema) -> Format:
    return "parquet" if schema.merge_format == "Parquet" else "deephaven"


def chosen_format(options: MergeOptions, schema: TableSchema, base: MergeRecord | None = None) -> Format:
    """The format that the options name, else that of the date's last merge ``base``, else that of the schema."""
    return options.format or (base and recorded_format(base)) or schema_format(schema)


def recorded_format(record: MergeRecord) -> Format | None:
    """The format that a merge was recorded with, None in records of the first releases."""
    return next((known for known in FORMATS if known == record.run.format), None)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Everything a worker needs for one date; ``sources`` are in tie order, ``destinations`` in formula order.

    ``left_out``: the rows of the sources that are not among those they keep.
    """

    table: TableName
    value: str
    generation: int
    schema: TableSchema
    sources: tuple[MergeSource, ...]
    destinations: tuple[Destination, ...]
    options: MergeOptions
    work: Path
    left_out: LeftOut = LeftOut()

    @property
    def format(self) -> Format:
        """The format of the outputs: as the options say, else the schema."""
        return chosen_format(self.options, self.schema)

    @property
    def rows(self) -> int:
        """The rows that are written."""
        return sum(len(source) for source in self.sources)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that have files."""
        return self.schema.stored

    @property
    def symbol_columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.storage is Storage.SYMBOL)

    @property
    def blob_columns(self) -> tuple[Column, ...]:
        """Columns whose values lie in a ``.bytes`` file."""
        return tuple(c for c in self.columns if c.storage is Storage.BLOB)

    @property
    def ordering(self) -> tuple[SortKey, ...]:
        """Grouping columns ascending, then the sort columns that are not among them."""
        groups = tuple(SortKey(c.name) for c in self.schema.grouping)
        names = {key.column for key in groups}
        sort = [key for key in self.options.sort or () if key.column not in names]
        return groups + tuple(word for key in sort for word in key.words(self.column(key.column).type))

    def column(self, name: str) -> Column:
        column = self.schema.column(name)
        assert column is not None, name  # noqa: S101  names come from this schema
        return column

    def offset(self, index: int) -> int:
        """Rows of all sources before the given one."""
        return sum(len(source) for source in self.sources[:index])

    def row_cost(self) -> int:
        """Peak bytes per row in a worker: ordering, or the widest column."""
        keys = sum(8 if self.column(key.column).width >= 8 else 4 for key in self.ordering)
        return max(ORDER_BYTES + keys, 8 + self._column_cost())

    def _column_cost(self) -> int:
        """Peak bytes per row while a column is written."""
        fixed = [2 * c.width for c in self.columns if c.storage is not Storage.BLOB]
        return max([8, *fixed, *(self._blob_cost(c) for c in self.blob_columns)])

    def stored(self, column: Column) -> list[MergeSource]:
        """Where the values of a column lie, by source."""
        return [source.of(column) for source in self.sources]

    def _blob_cost(self, column: Column) -> int:
        texts = [(s, name) for s in self.stored(column) for name in s.placed(column).files[1:]]
        stored = sum(s.files[name].size for s, name in texts if name in s.files)
        stored += sum(s.text_bytes.get(column.name, 0) for s in self.sources)
        rows = sum(s.rows for s in self.sources)
        return 48 + 4 * (stored // max(rows, 1))

    def dictionary_cost(self) -> int:
        """Bytes of symbol tables in a worker: their union, and one column's texts again while it is built."""
        sizes = []
        for column in self.symbol_columns:
            names = [(s, s.placed(column).files) for s in self.stored(column)]
            ends, texts = (sum(s.files[n[i]].size for s, n in names if n[i] in s.files) for i in (1, 2))
            parquet = sum(s.text_bytes.get(column.name, 0) for s in self.sources)
            sizes.append(texts + ends // 2 + parquet)  # .sym has 8 bytes a text, Arrow 4
        return sum(sizes) + 2 * max(sizes, default=0)

    def usable(self) -> int:
        """Bytes of a worker's memory that rows may take beside the symbol tables."""
        return max(self.options.usable - self.dictionary_cost(), self.options.usable // 8, 1 << 20)

    def by_columns(self) -> bool:
        """Whether a worker can hold the order of all rows and one whole column: then workers write whole columns."""
        order = self.rows * self.row_cost() // max(self.options.workers, 1)
        fits = max(order, self.rows * (8 + self._column_cost())) <= self.usable()
        return fits and self.rows < 1 << 32  # row numbers of the order are u4

    @property
    def long(self) -> bool:
        """Whether its task is worth a start of its own."""
        return self.rows >= self.options.parallel_rows // 2

    @property
    def large(self) -> bool:
        """Whether all workers merge it together."""
        return self.ranges() > 1 and self.long

    def ranges(self) -> int:
        """Number of pieces of the date: as memory requires, and at least one per worker if it is large."""
        by_memory = -(-self.rows * (self.row_cost() + MOVE_BYTES) // self.usable())
        by_workers = self.options.workers if self.rows >= self.options.parallel_rows else 1
        return max(1, by_memory, by_workers)


Rows = tuple[npt.NDArray[np.uint32] | None, ...]
"""Per source the selected rows, ascending, counted from the source's first; None = all of them."""
Block = tuple[int, int, int, npt.NDArray[np.intp] | None, int, int]


def blocks_of(plan: MergePlan, rows: Rows) -> Iterator[Block]:
    """Blocks with chosen rows: source, first and last row, rows in it (None = all), place in source order, rows."""
    position = 0
    for index, source in enumerate(plan.sources):
        chosen = rows[index]
        for first, stop in source.blocks(plan.options.sizes.rows):
            if chosen is None:
                count, picked = stop - first, None
            else:
                a, b = np.searchsorted(chosen, [first - source.start, stop - source.start])
                count, picked = int(b - a), chosen[a:b].astype(np.intp) - (first - source.start)
            if count:
                yield index, first, stop, picked, position, count
            position += count
