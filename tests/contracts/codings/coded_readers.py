"""The contract of a reader for types with a codec: of one snapshot each shows the same values, in its own forms.

The table has every such type, a date in history as Parquet with late rows, one as column files, and one intraday.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, TABLE, coded_row, coded_table, counted
from tests.support.writers.merge_runs import FS, merge

CODED_NAME = str(TABLE)
NEXT, LAST = "2024-03-06", "2024-03-07"
MAPS = "Weights"
INDEXES = ("Day", "Far", "Clock", "Short", "Px", "Wide", "Whole", "Far,Wide", "Sym,Day,Px")
INDEXED = SCHEMA.replace(
    b"</Table>", b"".join(f'<DataIndex columns="{keys}"/>'.encode() for keys in INDEXES) + b"</Table>"
)
SERVED = INDEXED.replace(f'<Column name="{MAPS}" {COLUMNS[MAPS]}/>'.encode(), b"")
NUMBERS = ("Px", "Wide", "Free", "Whole", "Huge")
JAVA = {
    **dict.fromkeys(("Day", "Far"), "java.time.LocalDate"),
    **dict.fromkeys(("Clock", "Short"), "java.time.LocalTime"),
    **dict.fromkeys(("Px", "Wide", "Free"), "java.math.BigDecimal"),
    **dict.fromkeys(("Whole", "Huge"), "java.math.BigInteger"),
    **dict.fromkeys(("Raw", "Key", "Bytes", "Rows", "Thing"), "byte[]"),
    **dict.fromkeys(("Texts", "Tags"), "java.lang.String[]"),
    "Flags": "byte[]",
    "Units": "char[]",
    "Shorts": "short[]",
    "Ints": "int[]",
    "Longs": "long[]",
    "Floats": "float[]",
    "Doubles": "double[]",
    "Moments": "long[]",
}
"""What an engine has the columns as."""
Row = dict[str, Any]
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class CodedSnapshot:
    """A root, and the rows that readers of its table are to show."""

    root: Path
    rows: list[Row]

    def of(self, *dates: str) -> list[Row]:
        """The rows of these dates, or all, in the order of their numbers."""
        return [plain(row) for row in self.rows if not dates or row["Date"] in dates]


def make_coded_snapshot(root: Path, *, maps: bool = True) -> CodedSnapshot:
    """Two merged dates, one of them with late rows, and one that is intraday; ``maps``: with a column of them."""
    rng, rows = random.Random(11), list[Row]()
    db = IntradayRows(root, INDEXED if maps else SERVED, fs=FS)

    def put(day: str, source: str, count: int) -> None:
        fresh = [coded_row(rng, len(rows) + number) for number in range(count)]
        db.commit({(source, day): coded_table(db.schema, fresh)})
        rows.extend({"Date": day, **row} for row in fresh)

    for day, source, count in ((DAY, "a", 20), (DAY, "b", 9), (NEXT, "a", 12)):
        put(day, source, count)
    for partition in ("0", "1"):
        add_partition(FS, db.layout, TABLE.namespace, partition)
    merge(db.layout, DAY, table=TABLE, format="parquet")
    merge(db.layout, NEXT, table=TABLE)
    put(DAY, "c", 6)
    put(LAST, "a", 13)
    db.log.close()
    return CodedSnapshot(root, rows)


def plain(row: Row) -> Row:
    """A row whose values compare, whatever form of its types a reader has: dates as days, numbers as decimals."""
    return {name: _number(value) if name in NUMBERS else _plain(value) for name, value in row.items()}


def _number(value: Any) -> Any:
    return None if value is None else Decimal(value)


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.toordinal() - _EPOCH
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [tuple(item) if isinstance(item, list) else item for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


def coded_rows_of(table: pa.Table, names: Iterable[str]) -> list[Row]:
    """Rows of an Arrow table as ``plain`` gives them, times as nanoseconds."""
    columns = {}
    for name in names:
        columns[name] = counted(table[name].combine_chunks()).to_pylist()
    rows = [plain(dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
    return sorted(rows, key=lambda row: row["N"])


def from_engine(table: pa.Table) -> pa.Table:
    """A table as an engine gives it to a client: numbers are bytes, a BigDecimal's scale first, little-endian."""
    for index, name in enumerate(table.column_names):
        column = table[name]
        if name == "Flags" and pa.types.is_binary(column.type):
            flags = [None if data is None else [byte == 1 for byte in data] for data in column.to_pylist()]
            table = table.set_column(index, name, pa.array(flags, pa.list_(pa.bool_())))
        if name in NUMBERS and pa.types.is_binary(column.type):
            start = 0 if name in ("Whole", "Huge") else 4
            numbers = [None if data is None else engines_number(data, start) for data in column.to_pylist()]
            table = table.set_column(index, name, pa.array(numbers, pa.string()))
    return table


def engines_number(data: bytes, start: int) -> str:
    """The text of a number as an engine sends it, with ``start`` bytes of scale."""
    scale, number = (
        int.from_bytes(data[:start], "little", signed=True),
        int.from_bytes(data[start:], "big", signed=True),
    )
    return str(Decimal((int(number < 0), Decimal(abs(number)).as_tuple().digits, -scale)))


class CodedReaderContract(ABC):
    """Clauses for every reader. ``lacks``: columns for which it has no type. ``coded_snapshot`` is a fixture of
    ``tests/conftest``: one table for a process."""

    lacks: ClassVar[frozenset[str]] = frozenset()

    @property
    def names(self) -> list[str]:
        """The columns that the reader shows."""
        return [name for name in ("Date", "Sym", "N", *COLUMNS) if name not in self.lacks]

    @abstractmethod
    def read(self, root: Path) -> pa.Table:
        """The whole table by the reader, in any order of rows and columns."""

    @abstractmethod
    def read_date(self, root: Path, day: str) -> pa.Table:
        """The rows of one date, chosen by the reader."""

    def same(self, found: pa.Table, rows: list[Row]) -> None:
        """Every value of every row is there; the column of one that is not is named."""
        shown = coded_rows_of(found, self.names)
        assert len(shown) == len(rows)
        for name in self.names:
            assert [row[name] for row in shown] == [row[name] for row in rows], name

    def test_every_value_of_every_row_twice(self, coded_snapshot: CodedSnapshot) -> None:
        assert len(coded_snapshot.rows) == 60
        for _ in range(2):
            self.same(self.read(coded_snapshot.root), coded_snapshot.of())

    @pytest.mark.parametrize("day", [DAY, NEXT, LAST])
    def test_dates_in_both_formats_of_history_and_intraday(self, coded_snapshot: CodedSnapshot, day: str) -> None:
        self.same(self.read_date(coded_snapshot.root, day), coded_snapshot.of(day))
