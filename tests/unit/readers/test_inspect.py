"""Looks into files of every kind: sound ones say what they hold, damaged ones what is wrong and at which byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from readers.inspect.file import Inspection, inspect_file
from store.epochs.files.removals import write_removals
from store.epochs.state.removal import Removal
from store.epochs.state.values import OffsetRange
from store.errors import TableNotFoundError
from store.format.index.tlmi import IndexEntry, encode_tlmi
from store.io.fs import Fs
from store.layout import LocationKey
from store.merges.records import encode_record
from tests.support.places import GOLDEN
from tests.support.tables.column_files import add_grouping, group_ranges
from tests.support.tables.small_tables import SmallTable

DATE = "2026-11-20"
HEAD = 4096


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path)
    made.add("a", DATE, {"Sym": ["X", "X", "Y"], "Size": [1, 2, None], "Note": ["hi", None, "é"], "At": [5, 6, 7]})
    made.add("a", DATE, {"Sym": ["Y"], "Size": [5], "Px": [float("nan")]})
    return made


def look(small: SmallTable, name: str) -> Inspection:
    found = inspect_file(small.fs, small.location("a", DATE) / name)
    json.dumps(found.to_json())
    assert found.lines()[0].startswith(found.path)
    return found


def flip(path: Path, byte: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= mask
    path.write_bytes(data)


def told(found: Inspection) -> list[tuple[str, str, str | None]]:
    return [(f.severity, f.what, f.at) for f in found.findings]


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
    assert told(found)[0] == ("error", "file is shorter than its committed length", "byte 4109")
    assert (found.findings[0].expected, found.findings[0].found) == ("4112 bytes", "4109 bytes")
    assert "  at: byte 4109" in found.lines()


def test_a_column_without_a_record_beside_it(small: SmallTable) -> None:
    (small.location("a", DATE) / "table.size").unlink()
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes() + b"\x01")
    found = look(small, "Size.dat")
    assert found.facts["rows"] == 4
    assert told(found) == [
        ("note", "no table.size beside the file names its committed length: the whole file is shown", None),
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
    assert told(look(small, "Size.dat"))[0][1] == "file is shorter than its committed length"
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


def test_one_fault_is_told_once(small: SmallTable) -> None:
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
    assert told(look(small, "Sym.sym.bytes"))[0][1] == "companion file is missing"


def test_overflow_files(small: SmallTable) -> None:
    directory, column = small.location("a", DATE), small.schema.column("Sym")
    assert column is not None
    add_grouping(small.fs, directory, column, group_ranges(["X", "Y"], [2, 2], column.type))
    found = look(small, "Sym.ovr")
    assert (found.sound, found.facts["groups"]) == (True, 2)
    assert found.facts["first"][1] == {"key": "Y", "start": 2, "end": 4}
    path = directory / "Sym.ovr"
    path.write_bytes(path.read_bytes()[:-20])
    assert told(look(small, "Sym.ovr"))[0][1] == "Java stream ends inside an element"
    add_grouping(small.fs, directory, column, group_ranges(["X", "Y"], [2, 1], column.type))
    assert told(look(small, "Sym.ovr"))[0][1] == "grouping ranges do not cover the location"


# --- records -----------------------------------------------------------------------------------------------


def test_table_size(small: SmallTable) -> None:
    found = look(small, "table.size")
    assert (found.kind, found.sound) == ("location record", True)
    assert (found.facts["size"], found.facts["epoch"], found.facts["stream"]) == (4, 2, "s")
    assert found.facts["data_file_sizes"]["Size.dat"] == 16
    (small.location("a", DATE) / "Px.dat").unlink()
    assert told(look(small, "table.size")) == [("error", "a committed file is missing", None)]
    (small.location("a", DATE) / "table.size").write_bytes(b"")
    assert told(look(small, "table.size"))[0][1] == "table.size is empty"


def test_definitions_and_their_cuts(small: SmallTable) -> None:
    found = look(small, "table.tbl")
    assert (found.kind, found.facts["name"], found.facts["storageType"]) == ("table definition", "T", 2)
    assert [column["name"] for column in found.facts["columns"]][:2] == ["Date", "Sym"]
    path = small.location("a", DATE) / "table.tbl"
    path.write_bytes(path.read_bytes()[:1800])
    damaged = look(small, "table.tbl")
    assert not damaged.sound and "byte 1" in (damaged.findings[0].at or "")


def test_location_indexes(small: SmallTable, tmp_path: Path) -> None:
    path = tmp_path / "T.tlmi"
    path.write_bytes(encode_tlmi([IndexEntry(LocationKey("0", DATE), 11, 5)]))
    found = inspect_file(small.fs, path)
    assert found.facts["locations"] == [
        {"internal": "0", "value": DATE, "format": "DEEPHAVEN", "rows": 11, "modifiedMs": 5}
    ]
    path.write_bytes(path.read_bytes()[:-1])
    assert not inspect_file(small.fs, path).sound
    path.write_bytes(b"\0" * 12)
    damaged = inspect_file(small.fs, path)
    assert "byte 0" in f"{damaged.findings[0].at}" or "magic" in damaged.findings[0].what


def test_schemas_and_their_history(small: SmallTable) -> None:
    path = small.layout.schema(small.table)
    assert inspect_file(small.fs, path).facts["columns"][0] == "Date"
    assert inspect_file(small.fs, small.layout.schema_history(small.table)).facts["versions"][0]["version"] == 1
    path.write_bytes(path.read_bytes().replace(b'dataType="int"', b""))
    found = inspect_file(small.fs, path)
    assert not found.sound
    assert found.findings[0].what.startswith("E111: ")
    assert (found.findings[0].at or "").startswith("line 5, column ")
    path.write_bytes(b"<Table")
    assert inspect_file(small.fs, path).findings[0].what.startswith("E101")


def test_merge_records(small: SmallTable) -> None:
    record = small.merge_by_hand(DATE)
    path = small.layout.merges(small.table) / DATE / "0.json"
    found = inspect_file(small.fs, path)
    assert (found.kind, found.facts["rowsIn"], found.facts["rowsOut"]) == ("merge record", 4, 4)
    assert told(found) == [("error", "merge has no valid proof", None)]
    flip(path, 50)
    assert told(inspect_file(small.fs, path)) == [("error", "merge record is cut short or damaged", "byte 16")]
    path.write_bytes(encode_record(record))
    moved = path.with_name("7.json")
    path.rename(moved)
    assert "merge record is in a wrong directory" in [f.what for f in inspect_file(small.fs, moved).findings]


def test_locks_and_broken_json(small: SmallTable) -> None:
    path = small.layout.stream_lock(small.table, "s")
    assert inspect_file(small.fs, path).facts["pid"] == 41
    path.write_bytes(b'{"pid": 1,')
    found = inspect_file(small.fs, path)
    assert told(found) == [("error", "file is not JSON", "byte 10")]
    path.write_bytes(b"")
    assert inspect_file(small.fs, path).sound


def test_parquet(small: SmallTable, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"A": [1, 2]}), path)
    found = inspect_file(small.fs, path)
    assert (found.facts["rows"], found.facts["columns"]) == (2, ["A: int64"])
    path.write_bytes(path.read_bytes()[:-2])
    assert told(inspect_file(small.fs, path))[0][1] == "Parquet file is damaged"


# --- framed files ------------------------------------------------------------------------------------------


def test_commit_logs(small: SmallTable) -> None:
    path = small.layout.stream_log(small.table, "s")
    found = inspect_file(small.fs, path)
    assert (found.kind, found.sound, found.facts["firstEpoch"], found.facts["lastEpoch"]) == ("commit log", True, 1, 2)
    kinds = [(record["kind"], record["epoch"], record.get("rows")) for record in found.facts["records"]]
    assert kinds == [("open", 0, None), ("commit", 1, 3), ("commit", 2, 1)]
    assert found.facts["records"][0]["byte"] == 16
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    torn = inspect_file(small.fs, path)
    last = found.facts["records"][2]["byte"]
    assert torn.sound and told(torn)[0][0::2] == ("warning", f"byte {last}")
    flip(path, found.facts["records"][1]["byte"] + 20)
    path.write_bytes(path.read_bytes() + whole[-5:])
    damaged = inspect_file(small.fs, path)
    assert told(damaged) == [
        ("error", "a record before the last one is damaged", f"byte {found.facts['records'][1]['byte']}")
    ]
    path.write_bytes(b"SHVLOG9\n" + whole[8:])
    assert told(inspect_file(small.fs, path))[0][1] == "file starts with other bytes"
    path.write_bytes(whole[:10])
    assert told(inspect_file(small.fs, path))[0][1] == "file ends inside its header"


def test_logs_and_checkpoints_with_offsets(small: SmallTable) -> None:
    small.commit(ranges=(OffsetRange("t", 0, 5, 20), OffsetRange("t", 0, 20, 22)))
    small.commit(ranges=(OffsetRange("t", 0, 30, 40),), gaps=(OffsetRange("t", 0, 22, 30),))
    found = inspect_file(small.fs, small.layout.stream_log(small.table, "s"))
    first, second = found.facts["records"][-2:]
    assert first["ranges"] == [["t/0", 5, 20], ["t/0", 20, 22]] and "gaps" not in first
    assert (second["ranges"], second["gaps"]) == ([["t/0", 30, 40]], [["t/0", 22, 30]])
    small.log().close()
    small.logs.clear()
    small.log(keep_epochs=0).compact_if_due(now=True)
    found = inspect_file(small.fs, small.layout.stream_checkpoint(small.table, "s"))
    assert found.facts["positions"] == {"t/0": 40}


def test_checkpoints(small: SmallTable) -> None:
    small.log().close()
    small.logs.clear()
    small.log(keep_epochs=1).compact_if_due(now=True)
    path = small.layout.stream_checkpoint(small.table, "s")
    found = inspect_file(small.fs, path)
    assert (found.kind, found.sound) == ("checkpoint", True)
    flip(path, 40)
    damaged = inspect_file(small.fs, path)
    assert not damaged.sound
    assert "byte" in (damaged.findings[0].at or "")


def test_removals(small: SmallTable) -> None:
    path = small.layout.stream_removals(small.table, "s")
    removal = Removal(LocationKey("a", DATE), since=1, rows=4, phase="truncate", epoch=2)
    write_removals(small.fs, small.layout, small.table, "s", [removal])
    found = inspect_file(small.fs, path)
    assert (found.kind, found.sound) == ("removals", True)
    entry = {"byte": 16, "phase": "truncate", "internal": "a", "value": DATE, "since": 1, "rows": 4, "epoch": 2}
    assert found.facts["removals"] == [entry]
    path.write_bytes(path.read_bytes()[:-1])
    assert told(inspect_file(small.fs, path))[0][::2] == ("warning", "byte 16")


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
def test_any_file_cut_anywhere_is_told_not_raised(small: SmallTable, length: int) -> None:
    small.merge_by_hand(DATE)
    for path in [p for p in small.root.rglob("*") if p.is_file()]:
        whole = path.read_bytes()
        path.write_bytes(whole[:length])
        found = inspect_file(small.fs, path)
        harmless = len(whole) <= length or found.kind in ("lock", "symbol bytes", "blob bytes", "removals")
        assert not found.sound or harmless or path.name.endswith((".log", ".sym")), (path, found)
        path.write_bytes(whole)


def test_heads(small: SmallTable) -> None:
    small.log().write_head()
    found = inspect_file(small.fs, small.layout.stream_head(small.table, "s"))
    assert (found.kind, found.sound) == ("head", True)
    assert found.facts["epoch"] == found.facts["durable"] == small.log().state.epoch
    assert (found.facts["floor"], found.facts["rows"]) == (0, sum(at["rows"] for at in found.facts["locations"]))


def test_a_validation_result(small: SmallTable, tmp_path: Path) -> None:
    place = tmp_path / ".T.merges" / "2026-11-20"
    place.mkdir(parents=True)
    path = place / "3.validation"
    path.write_bytes((GOLDEN / "validation-v1.validation").read_bytes())
    found = inspect_file(small.fs, path)
    assert (found.kind, found.sound, found.facts["passed"], len(found.facts["results"])) == (
        "validation result",
        True,
        False,
        4,
    )
    flip(path, 70)
    assert not inspect_file(small.fs, path).sound
    assert inspect_file(small.fs, path).kind == "validation result"
