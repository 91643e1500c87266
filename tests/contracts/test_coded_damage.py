"""Damage in columns with a codec that no checksum shows: `verify --deep` names the file, the row and the bytes.

The checksums of the records fit the damaged files, as after a writer with an error; any other change of a byte is
found by them alone.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.readers.checks.column_values import Expected
from sparkhaven.readers.checks.findings import CheckFinding
from sparkhaven.readers.checks.location import check_location
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.schema.deployed.schema_versions import definitions
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, coded_row, coded_table
from tests.support.writers.merge_runs import FS

ROWS, ROW = 8, 3
NO_VALUE, ENDS = "bytes stand for no value of the column's codec", "end of a value is negative, before its predecessor"
LAST = "last value does not end with the committed bytes"
ANY_BYTES = {"Raw", "Thing", "Free", "Huge"}  # of variable length: nearly every content is a value
FRACTION = 30  # bits of nanoseconds


@dataclass(frozen=True, slots=True)
class Damaged:
    """A location with all types, without nulls, and its files as they were written."""

    directory: Path
    schema: TableSchema
    files: dict[str, bytes]
    definitions: frozenset[bytes]

    def findings(self, changed: dict[str, bytes]) -> list[CheckFinding]:
        """What is wrong with other content of some files, whose checksums are recorded."""
        for name, data in changed.items():
            (self.directory / name).write_bytes(data)
        states = {name: self._state(name) for column in self.schema.stored for name in column.files}
        expected = Expected("intraday", self.directory, ROWS, states, {})
        found = [*check_location(FS, self.schema, expected, self.definitions, deep=True)]
        for name in changed:
            (self.directory / name).write_bytes(self.files[name])
        return [defect for defect in found if not defect.path.endswith("table.size")]  # it has the former lengths

    def _state(self, name: str) -> FileState:
        path, start = self.directory / name, DATA_OFFSET if name.endswith(".dat") else 0
        size = path.stat().st_size - start
        return FileState(size, checksum(FS, path, start, size))

    def fixed(self, column: str, entry: bytes) -> dict[str, bytes]:
        """Another entry of fixed width in ``ROW``."""
        data = self.files[f"{column}.dat"]
        assert (len(data) - DATA_OFFSET) == ROWS * len(entry), f"{column} has another width"
        start = DATA_OFFSET + ROW * len(entry)
        return {f"{column}.dat": data[:start] + entry + data[start + len(entry) :]}

    def end(self, column: str, row: int, change: Callable[[np.ndarray], int]) -> dict[str, bytes]:
        """Another end of one value."""
        data = self.files[f"{column}.dat"]
        ends = np.frombuffer(data, "<i8", offset=DATA_OFFSET).copy()
        ends[row] = change(ends)
        return {f"{column}.dat": data[:DATA_OFFSET] + ends.tobytes()}

    def value(self, column: str, change: Callable[[bytes], bytes]) -> dict[str, bytes]:
        """Other bytes of the value in ``ROW``, at their right place."""
        data, texts = self.files[f"{column}.dat"], self.files[f"{column}.bytes"]
        ends = [0, *np.frombuffer(data, "<i8", offset=DATA_OFFSET).tolist()]
        parts = [texts[ends[row] : ends[row + 1]] for row in range(ROWS)]
        parts[ROW] = change(parts[ROW])
        lengths = np.cumsum([len(part) for part in parts]).astype("<i8")
        return {f"{column}.dat": data[:DATA_OFFSET] + lengths.tobytes(), f"{column}.bytes": b"".join(parts)}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    db = IntradayRows(tmp_path_factory.mktemp("coded") / "db", SCHEMA, fs=FS)
    chance = random.Random(5)
    drawn = (coded_row(chance, number) for number in range(10_000))
    whole = (row for row in drawn if all(row[name] not in (None, [], b"") for name in COLUMNS))
    rows = [next(whole) for _ in range(ROWS)]
    db.commit({("a", DAY): coded_table(db.schema, rows)})
    directory = db.layout.intraday_location(db.table, LocationKey("a", DAY))
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    return Damaged(directory, db.schema, files, frozenset(definitions(db.place).values()))


def packed(width: int, *parts: tuple[int, int]) -> bytes:
    """Numbers at their bits, big-endian."""
    return sum(number << shift for number, shift in parts).to_bytes(width, "big")


FULL = (2024 + 999_999_999, 9)
FIXED: dict[str, tuple[str, bytes]] = {
    "month 13": ("Day", packed(3, (2024, 9), (13, 5), (1, 0))),
    "month 0": ("Day", packed(3, (2024, 9), (1, 0))),
    "day 0": ("Day", packed(3, (2024, 9), (2, 5))),
    "30 February": ("Day", packed(3, (2024, 9), (2, 5), (30, 0))),
    "29 February of no leap year": ("Day", packed(3, (2023, 9), (2, 5), (29, 0))),
    "year 10000 in three bytes": ("Day", packed(3, (10_000, 9), (1, 5), (1, 0))),
    "a null of a date with a bit": ("Day", b"\xff\0\x01"),
    "month 14 in five bytes": ("Far", packed(5, FULL, (14, 5), (1, 0))),
    "a year beyond all dates": ("Far", b"\xfe\xff\xff\xff\xff"),
    "a null of five bytes with a bit": ("Far", b"\xff\0\0\0\x01"),
    "hour 24": ("Clock", packed(6, (24, 12 + FRACTION))),
    "minute 60": ("Clock", packed(6, (1, 12 + FRACTION), (60, 6 + FRACTION))),
    "second 60": ("Clock", packed(6, (60, FRACTION))),
    "a whole second of nanoseconds": ("Clock", packed(6, (10**9, 0))),
    "a null of a time with a bit": ("Clock", b"\x80\0\0\0\0\x01"),
    "hour 25 in four bytes": ("Short", packed(4, (25, 22))),
    "a whole second of milliseconds": ("Short", packed(4, (1000, 0))),
    "19 digits of 18": ("Px", b"\x01" + (10**18).to_bytes(8, "big")),
    "a sign that is none": ("Px", b"\x02" + bytes(7) + b"\x05"),
    "a null of a decimal with a bit": ("Px", bytes(8) + b"\x01"),
    "51 digits of 50": ("Wide", b"\x01" + (10**50).to_bytes(21, "big")),
    "a sign of a wide decimal that is none": ("Wide", b"\x03" + bytes(20) + b"\x05"),
    "21 digits of 20": ("Whole", b"\x01" + (10**20).to_bytes(9, "big")),
    "a flag of bytes that is none": ("Key", b"\x02abcd"),
    "a null of bytes with content": ("Key", b"\x80abcd"),
}
ENDED: dict[str, tuple[str, int, Callable[[np.ndarray], int], str, str]] = {
    "an end before its predecessor": ("Free", ROW, lambda ends: ends[ROW - 1] - 1, ENDS, f"entry {ROW}"),
    "a negative end": ("Raw", 0, lambda ends: -5, ENDS, "entry 0"),
    "an end beyond the bytes": ("Rows", ROW, lambda ends: 10**9, ENDS, f"entry {ROW}"),
    "a last end beyond the bytes": ("Texts", ROWS - 1, lambda ends: ends[-1] + 1, LAST, f"row {ROWS - 1}"),
    "bytes behind the last end": ("Thing", ROWS - 1, lambda ends: ends[-1] - 1, LAST, f"row {ROWS - 1}"),
}
HEADS: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda value: value[:-1],
    "a byte too many": lambda value: value + b"\0",
    "bits all set": lambda value: b"\xff" * len(value),
    "zeros": lambda value: bytes(len(value)),
    "no bytes but one": lambda value: b"\x07",
}
VALUES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "an array of another class": ("Longs", lambda value: value.replace(b"[J", b"[I")),
    "another serialVersionUID": ("Doubles", lambda value: value[:8] + bytes(8) + value[16:]),
    "more elements than bytes": ("Longs", lambda value: value[:23] + b"\x7f" + value[24:]),
    "a negative number of elements": ("Ints", lambda value: value[:23] + b"\xff" * 4 + value[27:]),
    "a text that is no UTF": ("Texts", lambda value: value[:-1] + b"\xff"),
    "a scale without a number": ("Free", lambda value: value[:4]),
    "a number of 10,000 digits": ("Huge", lambda value: b"\x01" + bytes(4200)),
    "a key twice": ("Weights", lambda value: struct.pack(">i", 2) + (struct.pack(">i", 1) + b"a" + bytes(9)) * 2),
    "more entries than bytes": ("Weights", lambda value: b"\x7f" + value[1:]),
    "a command that no row set has": ("Rows", lambda value: b"\x28" + value[1:]),
}


def only(found: list[CheckFinding], name: str) -> CheckFinding:
    assert [Path(defect.path).name for defect in found] == [name], [defect.text() for defect in found]
    assert found[0].severity == "error" and found[0].expected and found[0].found and found[0].hint
    return found[0]


def test_as_written_nothing_is_found(location: Damaged) -> None:
    assert location.findings({}) == []
    assert len(FIXED) + len(ENDED) + len(VALUES) >= 40


@pytest.mark.parametrize("kind", FIXED)
def test_an_entry_of_fixed_width(location: Damaged, kind: str) -> None:
    column, entry = FIXED[kind]
    defect = only(location.findings(location.fixed(column, entry)), f"{column}.dat")
    assert (defect.what, defect.at, defect.found) == (NO_VALUE, f"row {ROW}", entry.hex(" "))


@pytest.mark.parametrize("kind", ENDED)
def test_an_end_of_a_value(location: Damaged, kind: str) -> None:
    column, row, change, what, at = ENDED[kind]
    defect = only(location.findings(location.end(column, row, change)), f"{column}.dat")
    assert defect.what.startswith(what) and str(defect.at).startswith(at)


@pytest.mark.parametrize("kind", VALUES)
def test_the_bytes_of_a_value(location: Damaged, kind: str) -> None:
    column, change = VALUES[kind]
    defect = only(location.findings(location.value(column, change)), f"{column}.dat")
    assert (defect.what, defect.at) == (NO_VALUE, f"row {ROW}")


@pytest.mark.parametrize("kind", HEADS)
def test_every_type_with_a_form(location: Damaged, kind: str) -> None:
    """Each of variable length whose bytes have a form."""
    columns = [name for name in COLUMNS if f"{name}.bytes" in location.files and name not in ANY_BYTES]
    assert len(columns) > 10
    for column in columns:
        defect = only(location.findings(location.value(column, HEADS[kind])), f"{column}.dat")
        assert (defect.what, defect.at) == (NO_VALUE, f"row {ROW}"), column


def test_sets_and_their_texts(location: Damaged) -> None:
    symbols = len(location.files["Tags.sym"]) // 8
    beyond = location.fixed("Tags", struct.pack("<q", 1 << symbols))
    defect = only(location.findings(beyond), "Tags.dat")
    assert (defect.what, defect.at, defect.found) == ("set has a bit of no symbol", f"row {ROW}", hex(1 << symbols))
    ends = np.frombuffer(location.files["Tags.sym"], "<i8").copy()
    ends[1] = 99
    defect = only(location.findings({"Tags.sym": ends.tobytes()}), "Tags.dat")
    assert defect.what.startswith(ENDS) and "Tags.sym, entry 1" in str(defect.at)
    defect = only(location.findings({"Tags.sym.bytes": location.files["Tags.sym.bytes"][:-1] + b"\xff"}), "Tags.dat")
    assert defect.what == "bytes are not text in the column's charset"
    assert f"Tags.sym, entry {symbols - 1}" in str(defect.at)


def test_a_file_that_is_cut_or_lost(location: Damaged) -> None:
    for column in COLUMNS:
        names = [name for name in location.files if name.startswith(f"{column}.") and len(location.files[name]) > 1]
        for name in names:
            found = location.findings({name: location.files[name][:-1]})
            assert {Path(defect.path).name.partition(".")[0] for defect in found} == {column}, name
            assert all(defect.severity == "error" for defect in found)
