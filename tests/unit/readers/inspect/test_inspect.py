"""Inspects column files, sound and damaged, and files of unknown or misleading names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from tests.support.disks.contents import flip
from tests.support.tables.column_files import add_grouping, group_ranges
from tests.support.tables.inspected import DATE, look, reported, small
from tests.support.tables.small_tables import SmallTable

__all__ = ["small"]
HEAD = 4096


# --- column files ------------------------------------------------------------------------------------------


def test_a_fixed_column(small: SmallTable) -> None:
    found = look(small, "Size.dat")
    assert (found.kind, found.sound, found.findings) == ("column data", True, [])
    expected = {
        "byteOrder": "LITTLE_ENDIAN",
        "dataOffset": HEAD,
        "dataType": "int",
        "width": 4,
        "encoding": None,
        "overflow": False,
        "dataBytes": 16,
        "rows": 4,
        "nulls": 1,
        "first": [1, 2, None, 5],
    }
    assert {name: found.facts[name] for name in expected} == expected
    assert "  first: [1, 2, None, 5]" in found.lines()
    assert look(small, "At.dat").facts["first"][0].startswith("1970-01-01 00:00:00.000000005")


def test_symbols_and_blobs(small: SmallTable) -> None:
    assert look(small, "Sym.dat").facts["symbols"] == 2
    for name in ("Sym.sym", "Sym.sym.bytes"):
        found = look(small, name)
        assert (found.facts["symbols"], found.facts["first"], found.facts["duplicates"]) == (2, ["X", "Y"], 0)
    assert look(small, "Note.dat").facts["first"] == ["hi", None, "é", None]
    assert look(small, "Note.bytes").facts == {
        "encoding": "UTF_8",
        "rows": 4,
        "nulls": 2,
        "first": ["hi", None, "é", None],
    }


def test_a_short_column(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes()[:-3])
    found = look(small, "Size.dat")
    assert not found.sound
    assert reported(found)[0] == ("error", "file is shorter than its committed length", "byte 4109")
    assert (found.findings[0].expected, found.findings[0].found) == ("4112 bytes", "4109 bytes")
    assert "  at: byte 4109" in found.lines()


def test_a_column_without_a_record_beside_it(small: SmallTable) -> None:
    (small.location("a", DATE) / "table.size").unlink()
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes() + b"\x01")
    found = look(small, "Size.dat")
    assert found.facts["rows"] == 4
    assert reported(found) == [
        ("note", "no table.size beside the file names its committed length. The whole file is shown", None),
        ("warning", "last row is incomplete", "byte 4112"),
    ]
    assert look(small, "Sym.sym").facts["first"] == ["X", "Y"]


def test_a_damaged_prefix(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Size.dat", 0x40, 0x80)
    found = look(small, "Size.dat")
    assert not found.sound
    assert "byte" in (found.findings[0].at or "")
    assert found.facts["firstBytes"].startswith("ac ed 00 05")
    (small.location("a", DATE) / "Size.dat").write_bytes(b"\xac\xed")
    assert reported(look(small, "Size.dat"))[0][1] == "file is shorter than its committed length"
    (small.location("a", DATE) / "Size.dat").write_bytes(b"")
    assert not look(small, "Size.dat").sound


@pytest.mark.parametrize("name", ["Size.dat", "Sym.sym.bytes", "Note.bytes"])
def test_a_flipped_bit_of_committed_data(small: SmallTable, name: str) -> None:
    path = small.location("a", DATE) / name
    head = HEAD if name.endswith(".dat") else 0
    path.write_bytes(path.read_bytes() + b"x" * 8)
    assert look(small, name).sound, "what is behind the committed bytes does not count"
    flip(path, head, 0x01)
    found = look(small, name)
    assert not found.sound
    changed = next(f for f in found.findings if f.severity == "error" and "checksum" in f.what)
    assert (changed.at or "").startswith(f"bytes {head} to ")
    assert (changed.expected, changed.found) != (None, None) and changed.expected != changed.found


def test_one_fault_is_reported_once(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes()[:-3])
    assert [f.severity for f in look(small, "Size.dat").findings] == ["error"]


def test_a_row_and_an_offset_that_point_nowhere(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Sym.dat", HEAD + 4, 0x20)
    found = look(small, "Sym.dat")
    assert found.findings[0].what == "row has a symbol that is not in the table"
    assert (found.findings[0].at or "").endswith("row 1")
    flip(small.location("a", DATE) / "Sym.sym", 0, 0x70)
    for name in ("Sym.sym", "Sym.sym.bytes"):
        found = look(small, name)
        assert "entry 0, byte 0 of the data" in (found.findings[0].at or "")
    (small.location("a", DATE) / "Sym.sym").unlink()
    assert reported(look(small, "Sym.sym.bytes"))[0][1] == "a committed file is missing"


def test_overflow_files(small: SmallTable) -> None:
    directory, column = small.location("a", DATE), small.schema.column("Sym")
    assert column is not None
    add_grouping(small.fs, directory, column, group_ranges(["X", "Y"], [2, 2], column.type))
    found = look(small, "Sym.ovr")
    assert (found.sound, found.facts["groups"]) == (True, 2)
    assert found.facts["first"][1] == {"key": "Y", "start": 2, "end": 4}
    path = directory / "Sym.ovr"
    path.write_bytes(path.read_bytes()[:-20])
    assert reported(look(small, "Sym.ovr"))[0][1] == "Java stream ends inside an element"
    add_grouping(small.fs, directory, column, group_ranges(["X", "Y"], [2, 1], column.type))
    assert reported(look(small, "Sym.ovr"))[0][1] == "grouping ranges do not cover the location"


# --- other paths -------------------------------------------------------------------------------------------


def test_the_first_bytes_tell_where_the_name_does_not(small: SmallTable, tmp_path: Path) -> None:
    path = tmp_path / "saved.bin"
    path.write_bytes(small.layout.stream_log(small.table, "s").read_bytes())
    assert inspect_file(small.fs, path).kind == "commit log"
    path.write_bytes(b"hello")
    found = inspect_file(small.fs, path)
    assert (found.kind, found.facts["firstBytes"]) == ("unknown", "68 65 6c 6c 6f")
    left = tmp_path / ".table.size.tmp-99"
    left.write_bytes((small.location("a", DATE) / "table.size").read_bytes())
    found = inspect_file(small.fs, left)
    assert found.kind == "location record"
    assert found.findings[0].what == "left over from an interrupted replace"


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no such file to inspect") as caught:
        inspect_file(Fs(), tmp_path)
    assert caught.value.found == "a directory"


@pytest.mark.parametrize("length", [0, 1, 3, 8, 15, 40, 200])
def test_any_file_cut_anywhere_is_reported_not_raised(small: SmallTable, length: int) -> None:
    small.merge_by_hand(DATE)
    for path in [p for p in small.root.rglob("*") if p.is_file()]:
        whole = path.read_bytes()
        path.write_bytes(whole[:length])
        found = inspect_file(small.fs, path)
        harmless = len(whole) <= length or found.kind in ("lock", "symbol bytes", "blob bytes", "removals")
        assert not found.sound or harmless or path.name.endswith((".log", ".sym")), (path, found)
        path.write_bytes(whole)
