"""When a read compares committed bytes with their checksums, what it remembers, and what it says."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import CorruptFileError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import FAST_FROM, crc32
from sparkhaven.store.scan.checksums import KEPT_LENGTHS, Checks
from tests.support.commands import run
from tests.support.tables.small_tables import SmallTable

DATE = "2026-11-20"
ROWS = {"Sym": ["X", "Y", "X"], "Size": [1, 2, 3], "Px": [1.0, 2.0, 3.0], "Note": ["hi", None, "ho"]}
HEAD = 4096


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path)
    made.add("a", DATE, ROWS)
    return made


def flip(path: Path, byte: int) -> None:
    """Changes one bit in place, so that the file stays the same inode."""
    with path.open("r+b") as file:
        file.seek(byte)
        old = file.read(1)[0]
        file.seek(byte)
        file.write(bytes((old ^ 1,)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "byte", "column"),
    [
        ("Size.dat", HEAD, "Size"),
        ("Px.dat", HEAD + 17, "Px"),
        ("Sym.dat", HEAD, "Sym"),
        ("Sym.sym.bytes", 0, "Sym"),
        ("Note.bytes", 0, "Note"),
    ],
)
@pytest.mark.parametrize("mode", [None, "read", "open"])
def test_a_flipped_bit_is_an_error_that_says_what_to_do(
    small: SmallTable, name: str, byte: int, column: str, mode: str | None
) -> None:
    path = small.location("a", DATE) / name
    crc = zlib.crc32(path.read_bytes()[HEAD if name.endswith(".dat") else 0 :])
    flip(path, byte)
    opened = open_table(small.root, "NS.T", checksum_verify=mode)  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError) as caught:
        opened.to_arrow(column)
    error = caught.value
    assert (error.what, error.where) == ("checksum does not match. Committed bytes have changed", str(path))
    assert str(error.expected).startswith(f"CRC-32 {crc:08x} over ")
    assert str(error.found).startswith("CRC-32 ")
    assert "epochs rollback" in str(error.hint)
    with pytest.raises(CorruptFileError):
        list(opened.to_batches([column]))
    with pytest.raises(CorruptFileError):
        opened.count(where=f'"{column}" is not null')
    assert opened.to_arrow("Live").num_rows == 3  # the file is not among those that this read opens


@pytest.mark.parametrize("mode", ["scrub", "off"])
def test_modes_that_take_bytes_as_they_are(small: SmallTable, mode: str) -> None:
    flip(small.location("a", DATE) / "Size.dat", HEAD)
    opened = open_table(small.root, "NS.T", checksum_verify=mode)  # type: ignore[arg-type]
    assert opened.to_arrow("Size")["Size"].to_pylist() == [0, 2, 3]


def test_the_environment_chooses_where_nobody_asks(small: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(small.location("a", DATE) / "Size.dat", HEAD)
    monkeypatch.setenv("SPARKHAVEN_CHECKSUM_VERIFY", "off")
    assert open_table(small.root, "NS.T").to_arrow("Size").num_rows == 3
    with pytest.raises(CorruptFileError):
        open_table(small.root, "NS.T", checksum_verify="read").to_arrow("Size")
    monkeypatch.setenv("SPARKHAVEN_CHECKSUM_VERIFY", "sometimes")
    with pytest.raises(SettingsError, match="unknown mode of checksum_verify") as caught:
        open_table(small.root, "NS.T")
    assert caught.value.where == "SPARKHAVEN_CHECKSUM_VERIFY"


def test_read_compares_a_file_once_and_open_each_time(small: SmallTable) -> None:
    small.add("a", DATE, {"Size": list(range(9, 9000))})
    once, always = (open_table(small.root, "NS.T", checksum_verify=mode) for mode in ("read", "open"))
    for opened in (once, always):
        opened.to_arrow("Size")
    path = small.location("a", DATE) / "Size.dat"
    flip(path, HEAD + 12)
    with path.open("ab") as file:
        file.write(b"as a commit does")
    assert once.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3, 8, *range(10, 9000)]
    with pytest.raises(CorruptFileError):
        always.to_arrow("Size")


def test_a_file_that_has_grown_costs_its_new_bytes_and_an_older_epoch_its_own(small: SmallTable) -> None:
    assert open_table(small.root, "NS.T").to_arrow("Size").num_rows == 3
    path = small.location("a", DATE) / "Size.dat"
    small.add("a", DATE, {"Size": [4, 5]})
    older = open_table(small.root, "NS.T", epoch=1)
    assert older.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3]
    flip(path, HEAD + 4 * 4)
    assert older.to_arrow("Size")["Size"].to_pylist() == [1, 2, 3]
    with pytest.raises(CorruptFileError):
        open_table(small.root, "NS.T").to_arrow("Size")


def test_what_is_remembered_of_a_file(tmp_path: Path) -> None:
    path, fs, checks = tmp_path / "x", Fs(), Checks(smallest=0)
    content = bytes(range(200))
    path.write_bytes(content)

    def require(length: int, data: bytes | None = None) -> None:
        checks.require(fs, path, pa.py_buffer((data or content)[:length]), zlib.crc32(content[:length]))

    for length in (50, 10, 100, 150, 120, 200):
        require(length)
    changed = b"\xff" + content[1:]
    require(200, changed)  # known by inode, length and checksum: not looked at
    with pytest.raises(CorruptFileError):
        require(60, changed)  # a length of which nothing shorter is remembered
    assert len(next(iter(checks._known.values())).prefixes) == KEPT_LENGTHS
    flip(path, 199)  # the same inode and length, but not the same file any more
    with pytest.raises(CorruptFileError):
        require(200, changed)
    flip(path, 199)
    # a rollback that was never published leaves the inode: other bytes follow the shorter prefix
    require(100)
    content = content[:100] + bytes(150)
    path.write_bytes(content)
    require(250)
    path.rename(tmp_path / "y")
    path.write_bytes(content)
    with pytest.raises(CorruptFileError):
        require(250, b"\xff" + content[1:])  # another inode


def test_history_is_compared_with_its_merge_record(small: SmallTable) -> None:
    small.merge_by_hand(DATE)
    place = small.layout.partitions("NS") / "0" / DATE / "T"
    assert open_table(small.root, "NS.T").to_arrow("Px", tier="history").num_rows == 3
    flip(place / "Size.dat", HEAD + 1)
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        open_table(small.root, "NS.T").to_arrow("Size")


def test_short_and_long_bytes_have_the_same_checksum() -> None:
    data = bytes(range(256)) * (FAST_FROM // 128)
    for length in (0, 1, 15, 4097, FAST_FROM - 1, FAST_FROM, len(data)):
        part = data[:length]
        for held in (part, memoryview(part), pa.py_buffer(part)):
            assert crc32(held) == zlib.crc32(part)
            assert crc32(held, 77) == zlib.crc32(part, 77)


def test_the_command_takes_the_mode(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Size.dat", HEAD)
    assert run(small.root, "read", "NS.T").exit_code == 1
    assert run(small.root, "read", "NS.T", "--checksum-verify", "off").exit_code == 0
    assert run(small.root, "read", "NS.T", "--checksum-verify", "maybe").exit_code == 2
