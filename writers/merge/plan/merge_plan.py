"""The plan of one merge of one date, as a value for the workers.

The rule of duplicates of one merge: as its options say, as the date was merged last, or as the schema says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.sync import SyncMode
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.merges.merge_run import Destination, LeftOut
from sparkhaven.store.types.model import Column, DedupeRule, Distribution, Storage, TableSchema, dedupe_fault
from sparkhaven.writers.merge.sources.merge_source import SIZES, BlockSizes, MergeSource
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
    """The format that a merge was recorded with, None where it names none of ours."""
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


NO_RULE = DedupeRule(())


def parse_dedupe(
    schema: TableSchema,
    *,
    dedupe: str | None = None,
    keep: str | None = None,
    last_by: str | None = None,
    upsert: str | None = None,
    order_by: str | None = None,
) -> DedupeRule | None:
    """The rule that options give; None: they give none. ``dedupe`` is ``none`` for no rule. SettingsError."""
    given = {"--dedupe": dedupe, "--last-by": last_by, "--upsert": upsert}
    named = [option for option, value in given.items() if value is not None]
    if not named and keep is None and order_by is None:
        return None
    if dedupe == "none" and len(named) == 1 and keep is None and order_by is None:
        return NO_RULE
    one = len(named) == 1 and (keep is None or dedupe is not None) and (order_by is None or upsert is None)
    if not one:
        words = [*named, *(["--keep"] if keep is not None else []), *(["--order-by"] if order_by is not None else [])]
        raise SettingsError(
            "options contradict each other",
            expected="one of --dedupe (with --keep, --order-by), --last-by (with --order-by), --upsert",
            found=" ".join(words),
            hint="see `sparkhaven merge --help`",
        )
    if keep not in (None, "first", "last"):
        raise SettingsError("unknown --keep", expected="first or last", found=repr(keep))
    (option,) = named
    keys = tuple(part.strip() for part in (given[option] or "").split(",") if part.strip())
    last = keep == "last" or dedupe is None
    return _checked(DedupeRule(keys, "last" if last else "first", order_by, upsert is not None), schema, option)


def rule_of(base: MergeRecord | None, given: DedupeRule | None, schema: TableSchema) -> DedupeRule:
    """The rule for a date after its merge ``base``; without keys if there is none. SettingsError: it cannot be used."""
    if given is not None:
        return given
    if base is not None and base.run.dedupe is not None:
        last = base.run.dedupe.renamed(schema.names_at(base.schema_version))
        if not last.keys:
            return NO_RULE
        return _checked(last, schema, f"the rule of merge {base.generation} of {base.value}")
    return schema.dedupe or NO_RULE


def recorded_rule(base: MergeRecord | None, given: DedupeRule | None, rule: DedupeRule) -> DedupeRule | None:
    """What the record of a merge by ``rule`` says; None where there is none and nobody has chosen that."""
    chosen = given is not None or (base is not None and base.run.dedupe is not None)
    return rule if rule.keys or chosen else None


def _checked(rule: DedupeRule, schema: TableSchema, where: str) -> DedupeRule:
    fault = dedupe_fault(rule, schema.columns)
    if fault is not None:
        raise SettingsError(
            "duplicates cannot be told by these columns",
            where=where,
            expected=fault[0],
            found=fault[1],
            hint=f"state the rule with --dedupe COLUMN, or --dedupe none. `sparkhaven schema show {schema.full_name}`"
            " lists the columns",
        )
    return rule
