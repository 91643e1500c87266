"""The symbol tables of a table: entries, texts, duplicates and bytes by column and date, and what to do about them.

Sizes come from commit logs and merge records. Only texts and duplicates need the tables to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.jobs.monitor.storage import INTRADAY, by_date
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.charset import WIDTH
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import committed_column
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.model import Column, Storage

LEAST_ROWS = 1000  # below them nothing is advised
RARELY = 2.0  # times that a text occurs in a location: below that texts take less space without a table
NEARLY_FULL = 58  # of the 64 texts of a set
OFTEN_MORE = 3.0  # entries per date: then a column may hold ids or times
MOST_BYTES = 64 << 20
SYM = ".sym"
SHOWN = {
    **dict.fromkeys(("column", "date"), pa.string()),
    **dict.fromkeys(("locations", "rows", "ids", "distinct", "duplicates", "bytes"), pa.int64()),
    "advice": pa.string(),
}
"""What is shown of ``SymbolUse``, and its types in Arrow."""


def _too_rare(rows: int, ids: int) -> str | None:
    """That texts of a column occur too rarely for symbol tables; None where they do not, or rows are too few."""
    if rows < LEAST_ROWS or not ids or rows >= RARELY * ids:
        return None
    return f"a text occurs {rows / ids:.1f} times in a location"


@dataclass(frozen=True, slots=True)
class SymbolSizes:
    """Symbol tables of a column by their sizes: date, entries and rows, summed over the locations of the date."""

    column: str
    dates: tuple[tuple[str, int, int], ...]

    @property
    def ids(self) -> int:
        return sum(ids for _, ids, _ in self.dates)

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self.dates)

    @property
    def advice(self) -> str:
        """What to do about the column."""
        if self.rows < LEAST_ROWS or not self.ids:
            return "too few rows to judge"
        if (rare := _too_rare(self.rows, self.ids)) is not None:
            how = f'declare {self.column} with symbolTable="None" before the next dates, which takes less space'
            return f"{rare}: {how}"
        entries = [ids for _, ids, _ in sorted(self.dates)]
        half = len(entries) // 2
        before, after = sum(entries[:half]) / max(1, half), sum(entries[half:]) / max(1, len(entries) - half)
        if half and after > OFTEN_MORE * before:
            return f"grew from {before:,.0f} to {after:,.0f} entries per date. Look whether its texts hold ids or times"
        return f"none: a text occurs {self.rows / self.ids:,.0f} times in a location"


def symbol_sizes(locations: Iterable[Slice]) -> list[SymbolSizes]:
    """By column, over all of these locations."""
    return [
        SymbolSizes(column, tuple((date, ids, rows) for (date, _), (ids, rows) in sorted(sizes.items())))
        for column, sizes in sorted(_sizes(locations).items())
    ]


def symbol_growth(locations: Iterable[Slice]) -> list[SymbolSizes]:
    """By column, each date once: as history has it, where it has symbol tables of the date."""
    growth = []
    for column, sizes in sorted(_sizes(locations).items()):
        dates = {date: numbers for (date, tier), numbers in sorted(sizes.items(), key=_history_last)}
        growth.append(SymbolSizes(column, tuple((date, *numbers) for date, numbers in sorted(dates.items()))))
    return growth


def _history_last(item: tuple[tuple[str, str], tuple[int, int]]) -> bool:
    return item[0][1] != INTRADAY


def _sizes(locations: Iterable[Slice]) -> dict[str, dict[tuple[str, str], tuple[int, int]]]:
    """Entries and rows by column, and by date and tier."""
    columns: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
    for location in locations:
        for file, state in location.files.items():
            if file.endswith(SYM):
                sizes = columns.setdefault(file.removesuffix(SYM), {})
                key = location.key.value, location.tier
                ids, rows = sizes.get(key, (0, 0))
                sizes[key] = ids + state.size // WIDTH, rows + location.rows
    return columns


def symbol_files(locations: Iterable[Slice]) -> list[SymbolFile]:
    """The symbol tables themselves."""
    return [
        SymbolFile(location.directory / file, state.size, texts.size)
        for location in locations
        for file, state in location.files.items()
        if file.endswith(SYM) and (texts := location.files.get(f"{file}.bytes")) is not None
    ]


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
        return {name: getattr(self, name) for name in SHOWN}

    @property
    def advice(self) -> str | None:
        """What to change, if anything."""
        if self.of_sets:
            full = f"{self.most_ids} of {MOST_SYMBOLS} texts are used: a column of type String[] has no limit"
            return full if self.most_ids >= NEARLY_FULL else None
        if (rare := _too_rare(self.rows, self.ids)) is not None:
            return f'{rare}: symbolTable="None" takes less space'
        if self.duplicates:
            repair = "A merge with --rewrite" if self.in_history else "A merge"
            return f"entries that repeat a text: {self.duplicates:,}. {repair} writes each text once"
        return None


def symbol_use(fs: Fs, table: PinnedTable, dates: Sequence[str] | None = None) -> Iterator[SymbolUse]:
    """By column, then by date. Locations in Parquet format have no symbol tables, and count for nothing."""
    slices = table.plan(dates=dates).slices
    for column in table.schema.stored:
        if {Storage.SYMBOL, Storage.SET}.intersection((column.storage, *(form.storage for form in column.forms))):
            yield from _of_column(fs, column, slices)


def symbols_table(fs: Fs, table: PinnedTable, dates: Sequence[str] | None = None) -> pa.Table:
    """What ``symbol_use`` finds, as an Arrow table."""
    return pa.Table.from_pylist([use.to_json() for use in symbol_use(fs, table, dates)], pa.schema([*SHOWN.items()]))


def _of_column(fs: Fs, column: Column, slices: Iterable[Slice]) -> Iterator[SymbolUse]:
    having = [slice_ for slice_ in slices if f"{slice_.placed(column).name}{SYM}" in slice_.files]
    for date, parts in by_date(having).items():
        use, tables = SymbolUse(column.name, date, column.storage is Storage.SET), list[pa.Array]()
        for slice_ in parts:
            tables.append(_count(fs, slice_.placed(column), slice_, use))
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


@dataclass(frozen=True, slots=True)
class SymbolFile:
    """A ``.sym`` file with its committed bytes, and those of the ``.sym.bytes`` beside it."""

    path: Path
    ends_size: int
    texts_size: int


class SymbolTables:
    """Counts entries that repeat a text; remembers what it has counted, and forgets files that are no longer asked for.

    One call reads files until it has read ``most_bytes``: later calls read the others.
    """

    def __init__(self, fs: Fs, most_bytes: int = MOST_BYTES) -> None:
        self._fs, self._most = fs, most_bytes
        self._known: dict[SymbolFile, int] = {}

    def duplicates(self, files: Iterable[SymbolFile]) -> dict[tuple[str, ...], float]:
        """Repeated entries by column, over the files that are known by now. Raises the errors of reading."""
        read, repeated, known = 0, dict[tuple[str, ...], float](), dict[SymbolFile, int]()
        for file in files:
            if file not in self._known:
                if read >= self._most:
                    continue
                self._known[file] = self._count(file)
                read += file.ends_size + file.texts_size
            known[file] = self._known[file]
            column = (file.path.name.removesuffix(".sym"),)
            repeated[column] = repeated.get(column, 0) + known[file]
        self._known = known
        return repeated

    def _count(self, file: SymbolFile) -> int:
        if not file.ends_size:
            return 0
        ends = np.frombuffer(self._fs.read_range(file.path, 0, file.ends_size), "<i8")
        texts = self._fs.read_range(file.path.with_name(f"{file.path.name}.bytes"), 0, file.texts_size)
        offsets = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64))
        entries = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), [None, offsets, pa.py_buffer(texts)])
        try:
            entries.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(
                "ends of symbols lie outside their texts",
                where=file.path,
                expected=f"ascending ends up to {file.texts_size}",
                found=str(error),
            ) from error
        return len(entries) - int(pc.count_distinct(entries).as_py())
