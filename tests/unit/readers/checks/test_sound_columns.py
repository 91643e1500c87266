"""The one pass of `verify --deep` says sound only where the checks that it spares find nothing."""

from __future__ import annotations

import errno
import mmap
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.readers.checks.column_values import check_values, is_sound
from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import CorruptFileError, SparkhavenError
from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.io import open_files
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import MAP_FROM, Opened
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.native.checked_columns import BLOCK
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import Column
from sparkhaven.writers.append.column_files import range_stats
from tests.support.tables.intraday_rows import IntradayRows

SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${autobalance_single}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/>
<Column name="Byte" dataType="byte"/><Column name="Short" dataType="short"/><Column name="Char" dataType="char"/>
<Column name="Int" dataType="int"/><Column name="Long" dataType="long"/><Column name="At" dataType="Instant"/>
<Column name="Float" dataType="float"/><Column name="Double" dataType="double"/><Column name="Live" dataType="Boolean"/>
<Column name="Sym" dataType="String"/><Column name="Group" dataType="String" columnType="Grouping"/>
<Column name="Text" dataType="String" symbolTable="None" encoding="UTF_8"/>
<Column name="Plain" dataType="String" symbolTable="None" encoding="US_ASCII"/>
</Table>"""
ROWS = 40
FIXED = ("Byte", "Short", "Char", "Int", "Long", "At", "Float", "Double", "Live")
NAMES = (*FIXED, "Sym", "Group", "Text", "Plain")
TYPES = {"Byte": "i1", "Short": "i2", "Char": "u2", "Int": "i4", "Long": "i8", "Float": "f4", "Double": "f8"}


def rows() -> pa.Table:
    """Values of every type, with nulls, NaN, infinity, empty texts and texts of all lengths of characters."""
    chance = np.random.default_rng(2)
    missing = chance.random(ROWS) < 0.2
    numbers = chance.integers(1, 100, ROWS)
    columns: dict[str, Any] = {name: pa.array(numbers.astype(kind), mask=missing) for name, kind in TYPES.items()}
    columns["Float"] = pa.array([None, np.nan, np.inf, *numbers[3:].tolist()], pa.float32())
    columns["Double"] = pa.array([np.nan, None, -np.inf, *(numbers[3:] / 7).tolist()])
    columns["At"] = pa.array(numbers * 10**15, pa.timestamp("ns", "UTC"), mask=missing)
    columns["Live"] = pa.array(numbers % 2 == 0, mask=missing)
    columns["Sym"] = pa.array([f"s{row // 6}" for row in range(ROWS)], mask=missing)
    columns["Group"] = pa.array([f"g{n % 3}" for n in numbers])
    columns["Text"] = pa.array(["", "é", None, "€uro", "\U0001f600", *(f"text {n}" for n in numbers[5:])])
    columns["Plain"] = pa.array(["", None, *(f"p{n}" for n in numbers[2:])])
    return pa.table(columns)


class Made:
    """One location of 40 rows, with statistics of each 10."""

    def __init__(self, root: Path) -> None:
        db, table = IntradayRows(root, SCHEMA), rows()
        key = LocationKey("s", "2026-11-20")
        db.commit({("s", "2026-11-20"): table})
        at = db.log.state.locations[key]
        self.layout, self.directory = db.layout, db.layout.intraday_location(db.table, key)
        parts = {name: table.column(name).combine_chunks() for name in NAMES}
        stats = {name: [range_stats(all_.slice(n, 10), n) for n in range(0, ROWS, 10)] for name, all_ in parts.items()}
        self.columns: Mapping[str, Column] = {column.name: column for column in db.schema.stored}
        self.expected = Expected("intraday", self.directory, at.rows, at.files, stats)
        db.log.close()

    def sound(self, name: str, expected: Expected | None = None, fs: Fs | None = None, block: int = BLOCK) -> bool:
        return is_sound(fs or Fs(), expected or self.expected, self.columns[name], block)

    def found(self, name: str, expected: Expected) -> bool:
        """Whether the checks that are spared find, or raise, anything."""
        try:
            return any(check_values(Fs(), expected, self.columns[name]))
        except SparkhavenError:
            return True

    def with_stats(self, name: str, changed: list[RangeStats]) -> Expected:
        return replace(self.expected, stats={**self.expected.stats, name: changed})

    def rewritten(self, name: str, data: bytes) -> Expected:
        """Other bytes of a file, with the checksum that they have."""
        lead = DATA_OFFSET if name.endswith(".dat") else 0
        path = self.directory / name
        path.write_bytes(path.read_bytes()[:lead] + data)
        state = FileState(len(data), zlib.crc32(data))
        return replace(self.expected, files={**self.expected.files, name: state})

    def bytes_of(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()[DATA_OFFSET if name.endswith(".dat") else 0 :]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "root")


@pytest.mark.parametrize("block", [8, 16, 56, 1 << 19])
def test_sound_columns_are_read_once(made: Made, block: int) -> None:
    for name in NAMES:
        larger = block < 16 and name == "Text"  # a text than a block
        assert made.sound(name, block=block) or larger, name
        assert made.sound(name, replace(made.expected, stats={}), block=block) or block < 16, name
    assert not verify(Fs(), made.layout, deep=True).findings


def test_the_checks_are_spared_where_all_is_sound(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkhaven.readers.checks.committed.checksum", None)
    monkeypatch.setattr("sparkhaven.readers.checks.location.check_values", None)
    assert not verify(Fs(), made.layout, deep=True).findings


@pytest.mark.parametrize("name", NAMES)
def test_every_bit_of_every_file(made: Made, name: str) -> None:
    for file in made.columns[name].files:
        path, size = made.directory / file, len(made.bytes_of(file))
        before = path.read_bytes()
        for at in {0, size // 2, size - 1}:
            damaged = bytearray(before)
            damaged[len(before) - size + at] ^= 1
            path.write_bytes(damaged)
            assert not made.sound(name), (file, at)
        path.write_bytes(before[:-1])
        assert not made.sound(name), file
        path.unlink()
        assert not made.sound(name), file
        path.write_bytes(before)
    assert made.sound(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_statistics_that_are_wrong(made: Made, name: str) -> None:
    right = list(made.expected.stats[name])
    for number, stats in enumerate(right):
        low, high = stats.low, stats.high
        assert low is not None and high is not None
        text, boolean = isinstance(low, str), isinstance(low, bool)
        above = "~" if text else True if boolean else low * 1.5 if isinstance(low, float) else low + 1  # type: ignore[operator]
        under = "" if text else False if boolean else -1.0 if isinstance(low, float) else 0
        others: list[dict[str, Any]] = [
            {"nulls": stats.nulls + 1}, {"nulls": max(stats.nulls - 1, 0)}, {"nans": stats.nans + 1},
            {"stop": stats.stop + 1},
            {"low": above}, {"high": under}, {"low": None}, {"high": None}, {"low": None, "high": None},
            {"low": "x"}, {"high": 1 << 70}, {"high": float("nan")}, {"low": "\ud800"},
        ]  # fmt: skip
        for change in others:
            try:
                expected = made.with_stats(name, [*right[:number], replace(stats, **change), *right[number + 1 :]])
                wrong = made.found(name, expected)
            except TypeError:  # a bound that no value can be compared with
                wrong = True
            assert not (made.sound(name, expected) and wrong), change
            assert wrong or change.keys() & {"low", "high", "stop"} or change == {"nulls": 0}, change
    assert made.sound(name, made.with_stats(name, right[1:]))  # rows without statistics
    assert made.sound(name, made.with_stats(name, [right[0], right[2]]))
    assert not made.sound(name, made.with_stats(name, [right[0], right[0], *right[1:]]))


@pytest.mark.parametrize("name", NAMES)
def test_no_values_that_the_checks_find_wrong(made: Made, name: str) -> None:
    """Any change of a file, with a checksum to match: what is said to be sound has no finding."""
    chance, certified = np.random.default_rng(7), 0
    for file in made.columns[name].files:
        before = made.bytes_of(file)
        for _ in range(150):
            data = bytearray(before)
            for at in chance.integers(0, len(data), chance.integers(1, 3)).tolist():
                data[at] = int(chance.choice([0, 1, 0x41, 0x7F, 0x80, 0xC3, 0xFF, data[at] ^ 1, data[max(at - 8, 0)]]))
            expected = made.rewritten(file, bytes(data))
            certified += made.sound(name, expected)
            assert not (made.sound(name, expected) and made.found(name, expected)), (file, bytes(data))
        made.rewritten(file, before)
    assert certified  # some changes are only other values


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("Text.dat", np.arange(1, ROWS + 1)[::-1].astype("<i8").tobytes()),
        ("Sym.sym", b""),
        ("Sym.sym", np.array([1, 3], "<i8").tobytes()),
        ("Sym.sym.bytes", b"s0s0s0s0s0s0s0"),
        ("Text.bytes", b""),
    ],
)
def test_files_that_do_not_fit(made: Made, file: str, data: bytes) -> None:
    assert not made.sound(file.partition(".")[0], made.rewritten(file, data))


class BadSector(Fs):
    """The disk does not read one file. A mapping of it would end the process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, path: Path) -> Opened:
        if path.name == self.name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().open(path)

    def map(self, path: Path, length: int) -> pa.Buffer:
        assert path.name != self.name
        return super().map(path, length)


@pytest.mark.parametrize("file", ["Int.dat", "Sym.dat", "Sym.sym", "Sym.sym.bytes", "Text.dat", "Text.bytes"])
def test_a_file_that_the_disk_does_not_read_is_one_finding(made: Made, file: str) -> None:
    fs = BadSector(file)
    assert not made.sound(file.partition(".")[0], fs=fs)
    found = verify(fs, Layout(made.layout.root), deep=True).findings
    assert [(Path(each.path).name, each.what) for each in found] == [
        (file, f"cannot be read: [Errno 5] Input/output error: '{made.directory / file}'")
    ]


@pytest.mark.parametrize("way", ["mapped", "read", "populating fails"])
def test_a_view_of_a_part_of_a_file(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    map_from = MAP_FROM if way == "read" else 1
    if way == "populating fails":
        monkeypatch.setattr(open_files, "_POPULATE_READ", 1 << 20)
    path, data = tmp_path / "file", bytes(range(256)) * 50
    path.write_bytes(data)
    file = Fs().open(path)
    for offset, length in ((0, 10), (4090, 20), (4096, 4096), (12_000, 800), (12_799, 1)):
        view = file.view(offset, length, map_from)
        assert bytes(view) == data[offset : offset + length]
        assert view.readonly and isinstance(view.obj, mmap.mmap) == (way == "mapped")
    assert bytes(file.view(3, 0, map_from)) == b""
    with pytest.raises(CorruptFileError, match="shorter") as raised:
        file.view(12_795, 6, map_from)
    assert (raised.value.expected, raised.value.found) == ("12801 bytes", "12800 bytes")
    path.write_bytes(bytes(50))  # shortened while it is open
    with pytest.raises(CorruptFileError, match="shorter") as raised:
        file.view(45, 10, map_from)
    assert (raised.value.expected, raised.value.found) == ("55 bytes", "50 bytes")


def test_large_parts_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(MAP_FROM))
    file = Fs().open(path)
    assert isinstance(file.view(1, MAP_FROM - 1).obj, bytes)
    assert isinstance(file.view(0, MAP_FROM).obj, mmap.mmap)
