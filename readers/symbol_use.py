"""How the symbol tables of a table are used: ids, texts, duplicates and bytes by column and date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.format.column.string_ends import WIDTH
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.scan.column_file import committed_column
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.model import Column, Storage

LEAST_ROWS = 1000  # below them nothing is advised
RARELY = 2.0  # times that a text occurs in a location: below that texts take less space without a table
NEARLY_FULL = 58  # of the 64 texts of a set


@dataclass(slots=True)
class SymbolUse:
    """The symbol tables of a column in the locations of a date.

    ``duplicates``: entries that repeat a text of their own table. ``distinct``: texts of all tables together.
    ``bytes``: of the tables.
    """

    column: str
    date: str
    of_sets: bool
    locations: int = 0
    rows: int = 0
    ids: int = 0
    most_ids: int = 0
    duplicates: int = 0
    distinct: int = 0
    bytes: int = 0
    in_history: bool = False

    def to_json(self) -> dict[str, object]:
        shown = ("column", "date", "locations", "rows", "ids", "distinct", "duplicates", "bytes")
        return {name: getattr(self, name) for name in shown} | {"advice": self.advice}

    @property
    def advice(self) -> str | None:
        """What to change, if anything."""
        if self.of_sets:
            full = f"{self.most_ids} of {MOST_SYMBOLS} texts are used: a column of type String[] has no limit"
            return full if self.most_ids >= NEARLY_FULL else None
        if self.rows >= LEAST_ROWS and self.rows < RARELY * self.ids:
            times = f"a text occurs {self.rows / self.ids:.1f} times in a location"
            return f'{times}: symbolTable="None" takes less space'
        if self.duplicates:
            repair = "`merge --rewrite`" if self.in_history else "A merge"
            return f"entries that repeat a text: {self.duplicates:,}. {repair} writes each text once"
        return None


def symbol_use(fs: Fs, table: PinnedTable, dates: Sequence[str] | None = None) -> Iterator[SymbolUse]:
    """By column, then by date. Locations in Parquet format have no symbol tables, and count for nothing."""
    slices = table.plan(dates=dates).slices
    for column in table.schema.stored:
        if {Storage.SYMBOL, Storage.SET}.intersection((column.storage, *(form.storage for form in column.forms))):
            yield from _of_column(fs, column, slices)


def _of_column(fs: Fs, column: Column, slices: Iterable[Slice]) -> Iterator[SymbolUse]:
    by_date: dict[str, list[Slice]] = {}
    for slice_ in slices:
        if f"{column.within(slice_.files).name}.sym" in slice_.files:
            by_date.setdefault(slice_.key.value, []).append(slice_)
    for date, parts in sorted(by_date.items()):
        use, tables = SymbolUse(column.name, date, column.storage is Storage.SET), list[pa.Array]()
        for slice_ in parts:
            tables.append(_count(fs, column.within(slice_.files), slice_, use))
        use.distinct = int(pc.count_distinct(pa.chunked_array(tables, pa.string()), mode="only_valid").as_py())
        yield use


def _count(fs: Fs, column: Column, slice_: Slice, use: SymbolUse) -> pa.Array:
    """Adds one location; returns the distinct texts of its table."""
    data, sym, texts = (slice_.directory / name for name in column.files)
    sizes = [slice_.files[path.name].size for path in (sym, texts)]
    prefix = committed_column(fs, data, column).prefix
    entries = (
        decode_symbols(fs.map(sym, sizes[0]), fs.map(texts, sizes[1]), prefix.encoding or "", prefix.byte_order, sym)
        if sizes[0]
        else pa.array([], pa.string())
    )
    distinct = pc.unique(entries.cast(pa.string()))
    ids = sizes[0] // WIDTH
    use.locations += 1
    use.rows += slice_.rows
    use.ids += ids
    use.most_ids = max(use.most_ids, ids)
    use.duplicates += ids - len(distinct)
    use.bytes += sum(sizes)
    use.in_history |= slice_.tier == "history"
    return distinct
