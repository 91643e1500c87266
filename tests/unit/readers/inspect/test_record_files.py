"""Inspects records, definitions, logs and heads, sound and damaged: what they hold, and what is wrong at which byte."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.format.index.tlmi import IndexEntry, encode_tlmi
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import encode_record
from sparkhaven.store.quarantine.ledger import Ledger, write_ledger
from tests.support.disks.contents import flip
from tests.support.places import GOLDEN
from tests.support.tables.inspected import DATE, look, reported, small
from tests.support.tables.small_tables import SmallTable

__all__ = ["small"]


# --- records -----------------------------------------------------------------------------------------------


def test_table_size(small: SmallTable) -> None:
    found = look(small, "table.size")
    assert (found.kind, found.sound) == ("location record", True)
    assert (found.facts["size"], found.facts["epoch"], found.facts["stream"]) == (4, 2, "s")
    assert found.facts["data_file_sizes"]["Size.dat"] == 16
    (small.location("a", DATE) / "Px.dat").unlink()
    assert reported(look(small, "table.size")) == [("error", "a committed file is missing", None)]
    (small.location("a", DATE) / "table.size").write_bytes(b"")
    assert reported(look(small, "table.size"))[0][1] == "table.size is empty"


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
    assert reported(found) == [("error", "merge has no valid proof", None)]
    flip(path, 50)
    assert reported(inspect_file(small.fs, path)) == [("error", "merge record is cut short or damaged", "byte 16")]
    path.write_bytes(encode_record(record))
    moved = path.with_name("7.json")
    path.rename(moved)
    assert "merge record is in a wrong directory" in [f.what for f in inspect_file(small.fs, moved).findings]


def test_locks_and_broken_json(small: SmallTable) -> None:
    path = small.layout.stream_lock(small.table, "s")
    assert inspect_file(small.fs, path).facts["pid"] == 41
    path.write_bytes(b'{"pid": 1,')
    found = inspect_file(small.fs, path)
    assert reported(found) == [("error", "file is not JSON", "byte 10")]
    path.write_bytes(b"")
    assert inspect_file(small.fs, path).sound


def test_parquet(small: SmallTable, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"A": [1, 2]}), path)
    found = inspect_file(small.fs, path)
    assert (found.facts["rows"], found.facts["columns"]) == (2, ["A: int64"])
    path.write_bytes(path.read_bytes()[:-2])
    assert reported(inspect_file(small.fs, path))[0][1] == "Parquet file is damaged"


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
    assert torn.sound and reported(torn)[0][0::2] == ("warning", f"byte {last}")
    flip(path, found.facts["records"][1]["byte"] + 20)
    path.write_bytes(path.read_bytes() + whole[-5:])
    damaged = inspect_file(small.fs, path)
    assert reported(damaged) == [
        ("error", "a record before the last one is damaged", f"byte {found.facts['records'][1]['byte']}")
    ]
    path.write_bytes(b"SHVLOG9\n" + whole[8:])
    assert reported(inspect_file(small.fs, path))[0][1] == "file starts with other bytes"
    path.write_bytes(whole[:10])
    assert reported(inspect_file(small.fs, path))[0][1] == "file ends inside its header"


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
    write_removals(small.place.of_stream("s"), [removal])
    found = inspect_file(small.fs, path)
    assert (found.kind, found.sound) == ("removals", True)
    entry = {"byte": 16, "phase": "truncate", "internal": "a", "value": DATE, "since": 1, "rows": 4, "epoch": 2}
    assert found.facts["removals"] == [entry]
    path.write_bytes(path.read_bytes()[:-1])
    assert reported(inspect_file(small.fs, path))[0][::2] == ("warning", "byte 16")


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


# --- beside the data ---------------------------------------------------------------------------------------


def test_a_mark_of_an_owner(small: SmallTable) -> None:
    (small.location("a", DATE) / ".stream").write_bytes(b"s\n2\n")
    found = look(small, ".stream")
    assert (found.kind, found.sound, found.facts["stream"]) == ("mark of a location's owner", True, "s")
    (small.location("a", DATE) / ".stream").write_bytes(b"\xff")
    assert reported(look(small, ".stream")) == [("error", "mark of the owner names no stream", None)]


def test_scratch_locks_and_caches_are_shown(small: SmallTable) -> None:
    said = {
        ".scratch/N.T/s/planned.json": b'{"end": {}, "rows": []}',
        ".scratch/N.T/s/1-0-0/open": b"",
        ".spark/N.T/s/offsets/0": b"v1\n{}",
        ".scrub/position": b"{",
        ".scrub/lock": b"",
        "Systems/N/MetadataIndex/.T.merges/.lock": b"",
        ".sparkhaven-form": b"1",
        ".quarantine/s/_delta_log/_last_checkpoint": b'{"version": 10}',
        "Intraday/N/T/.set-aside/a/2026-01-01/T-1.json": b"{}",
    }
    for name, content in said.items():
        path = small.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        found = inspect_file(small.fs, path)
        assert found.sound and found.kind != "unknown" and not found.findings, name


def test_a_commit_of_a_delta_table_is_no_merge_record(tmp_path: Path) -> None:
    path = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"protocol": {"minReaderVersion": 1}}\n{"add": {"path": "a.parquet", "size": 3}}\n')
    found = inspect_file(Fs(), path)
    assert (found.kind, found.sound, found.facts["add"]) == ("commit of a Delta table", True, 1)
    path.write_bytes(path.read_bytes()[:-9])
    assert reported(inspect_file(Fs(), path))[0][1] == "a line of the commit is no action"
    feed = tmp_path / "1.json"
    feed.write_text('{"A": 1}')
    assert (inspect_file(Fs(), feed).kind, inspect_file(Fs(), feed).sound) == ("unknown", True)


def test_a_ledger_of_a_quarantine(small: SmallTable) -> None:
    place = small.place.of_stream("s")
    write_ledger(place, Ledger("/q", "/s.toml", 3))
    found = inspect_file(small.fs, place.stream_quarantine)
    assert (found.kind, found.sound, found.facts["newest"]) == ("ledger of a quarantine", True, 3)
    flip(place.stream_quarantine, 12)
    assert not inspect_file(small.fs, place.stream_quarantine).sound
