"""Checks of tables: each kind of damage is found, named by path and place, and distinguished from what is harmless."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.readers.checks.findings import Finding, Report
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.inspect.any_file import inspect_file
from sparkhaven.store.epochs.files.head import decode_head, encode_head, open_head
from sparkhaven.store.epochs.files.published_size import read_published
from sparkhaven.store.epochs.reading.log_reader import read_files
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_records import CommitRecord, encode
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.framing import frame
from sparkhaven.store.merges.merge_records import MergeInput, load_record, store_record
from sparkhaven.store.merges.merge_run import MergePhase, Proof
from sparkhaven.store.types.committed_columns import RangeStats
from tests.support.disks.contents import flip
from tests.support.tables.small_tables import SmallTable

DATE = "2026-11-20"
HEAD = 4096


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path)
    made.add("a", DATE, {"Sym": ["X", None, "Y"], "Size": [1, 2, None], "Note": ["hi", None, "é"]})
    made.add("a", DATE, {"Sym": ["Z"], "Size": [5], "Px": [float("nan")], "At": [7], "Live": [False]})
    made.add("b", DATE, {"Sym": ["Q"], "Size": [9]})
    return made


def check(small: SmallTable, *, deep: bool = True) -> Report:
    return verify(small.fs, small.layout, small.table, deep=deep)


def only(report: Report) -> Finding:
    assert len(report.findings) == 1, "\n".join(f.text() for f in report.findings)
    return report.findings[0]


def test_temporaries_of_a_running_compaction_are_no_finding(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    log = small.log(keep_epochs=1, compact_bytes=1, slice_work=1)
    streams = small.layout.streams(small.table)
    under_way: list[Path] = []
    while not under_way:
        small.add("a", DATE, {"Size": [1]})
        assert not log.compact_if_due()
        under_way = sorted(streams.glob(".s.*.tmp-next"))
    assert check(small).findings == []
    reported = inspect_file(small.fs, under_way[0]).findings
    assert (reported[0].code, reported[0].what) == ("N209", "the running stream is writing it")
    log.close()
    assert check(small).findings == []
    under_way[0].write_bytes(b"x")
    assert only(check(small)).what == "left over from an interrupted replace"


def test_a_sound_table_has_no_findings(small: SmallTable) -> None:
    report = check(small)
    assert report.findings == []
    assert (report.tables, report.streams, report.locations, report.rows) == (1, 1, 2, 5)
    assert report.to_json()["errors"] == 0
    assert verify(small.fs, small.layout).tables == 1
    seen: list[str] = []
    verify(small.fs, small.layout, progress=seen.append)
    assert seen == [str(small.location("a", DATE)), str(small.location("b", DATE))]


def test_nothing_is_written(small: SmallTable) -> None:
    (small.location("a", DATE) / "Size.dat").unlink()
    before = {path: path.stat().st_mtime_ns for path in small.root.rglob("*")}
    check(small)
    assert {path: path.stat().st_mtime_ns for path in small.root.rglob("*")} == before


def test_a_short_file(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes()[:-1])
    for deep in (False, True):
        found = only(check(small, deep=deep))
        assert (found.severity, found.path) == ("error", str(path))
        assert found.what == "file is shorter than its committed length"
        assert (found.at, found.expected, found.found) == ("byte 4111", "4112 bytes", "4111 bytes")
        assert "`sparkhaven epochs rollback NS.T NAME --to N`" in str(found.hint)


def test_an_uncommitted_tail_is_a_warning(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Size.dat"
    path.write_bytes(path.read_bytes() + b"tail")
    found = only(check(small))
    assert (found.severity, found.at) == ("warning", "byte 4112")
    assert found.what == "uncommitted tail: readers ignore it, the next recovery truncates it"


@pytest.mark.parametrize("name", ["Size.dat", "Sym.sym", "Note.bytes"])
def test_a_missing_file(small: SmallTable, name: str) -> None:
    (small.location("a", DATE) / name).unlink()
    found = [f for f in check(small, deep=False).findings if f.severity == "error"]
    assert any(f.path.endswith(name) and f.what == "a committed file is missing" for f in found)


def test_a_flipped_bit_needs_deep(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Px.dat"
    flip(path, HEAD + 9)
    assert check(small, deep=False).findings == []
    found = check(small).findings[0]
    assert found.what == "checksum does not match. Committed bytes have changed"
    assert found.at == "bytes 4096 to 4128"
    assert str(found.expected).startswith("CRC-32 ")


def test_a_symbol_that_is_not_in_the_table(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Sym.dat", HEAD + 12, 0x40)
    texts = [(f.what, f.at) for f in check(small).findings]
    assert ("row has a symbol that is not in the table", "row 3") in [(what, (at or "")[-5:]) for what, at in texts]


def test_symbol_offsets_out_of_order(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Sym.sym", 8, 0x0F)
    assert any("entry 1" in (f.at or "") for f in check(small).findings)


def test_blob_text_that_is_no_text(small: SmallTable) -> None:
    path = small.location("a", DATE) / "Note.bytes"
    path.write_bytes(b"hi\xff\xfe")
    whats = [f.what for f in check(small).findings]
    assert whats[0] == "checksum does not match. Committed bytes have changed"
    assert len(whats) == 2 and "row 2" in (check(small).findings[1].at or "")


def test_a_damaged_prefix(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Size.dat", 1)
    found = check(small, deep=False).findings
    assert found[0].severity == "error"
    assert "byte 0" in (found[0].at or "")
    assert found[0].what == "file does not start with a Java stream header"


def test_padding_that_is_not_zero(small: SmallTable) -> None:
    flip(small.location("a", DATE) / "Size.dat", 4000)
    found = only(check(small))
    assert (found.severity, found.at, found.expected, found.found) == ("error", "byte 4000", "00", "01")
    assert found.what == "prefix is damaged. Its bytes differ from the canonical encoding of its content"


def test_wrong_statistics(small: SmallTable) -> None:
    report = small.append("a", DATE, {"Size": [50, 60]})
    small.commit(replace(report, stats={**report.stats, "Size": RangeStats(4, 6, 0, 0, 50, 55)}))
    found = only(check(small))
    assert found.what == "statistics are wrong. Reads may skip rows that match"
    assert (found.at, found.expected, found.found) == ("rows 0 to 6", "1 to 55", "1 to 60")


def test_records_that_are_missing_old_or_damaged(small: SmallTable) -> None:
    record = small.location("a", DATE) / "table.size"
    old = record.read_bytes()
    record.unlink()
    found = only(check(small))
    assert (found.severity, found.what) == ("warning", "location is not published. Its record is missing")
    record.write_bytes(old)
    small.commit(small.append("a", DATE, {"Size": [6]}), publish=False)
    found = only(check(small))
    assert (found.severity, found.what) == ("warning", "record is behind the commit log")
    assert found.found == "4 rows, epoch 2"
    record.write_bytes(old[:-9])
    found = only(check(small))
    assert (found.severity, found.what) == ("error", "Java stream ends inside an element")
    assert read_published(old, record) is not None


def test_a_lost_location(small: SmallTable) -> None:
    shutil.rmtree(small.location("b", DATE))
    found = only(check(small))
    assert (found.severity, found.what, found.expected) == ("error", "location is missing", "1 rows")


def test_strays(small: SmallTable) -> None:
    (small.location("a", DATE) / "Old.dat").write_bytes(b"x")
    (small.location("a", DATE) / ".table.size.tmp-12").write_bytes(b"x")
    (small.layout.streams(small.table) / "notes.txt").write_text("x")
    stray = small.location("c", DATE)
    stray.mkdir(parents=True)
    lost = small.layout.partitions("NS") / "0" / DATE / "T"
    lost.mkdir(parents=True)
    found = {Path(f.path).name: (f.severity, f.what) for f in check(small).findings}
    assert found["Old.dat"] == ("warning", "file that no epoch has committed")
    assert found[".table.size.tmp-12"] == ("note", "left over from an interrupted replace")
    assert found["notes.txt"] == ("warning", "file of no stream")
    assert found[DATE] == ("warning", "no stream has committed this. Readers ignore it")
    assert found["T"] == ("warning", "nothing says how many rows this location has. Readers ignore it")
    assert len(found) == 5


def test_a_torn_and_a_damaged_log(small: SmallTable) -> None:
    path = small.layout.stream_log(small.table, "s")
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")
    found = only(check(small))
    assert (found.severity, found.at, found.found) == ("warning", f"byte {len(whole)}", "4 bytes")
    damaged = bytearray(whole)
    damaged[60] ^= 1
    path.write_bytes(damaged)
    errors = [f for f in check(small).findings if f.severity == "error"]
    assert [f.what for f in errors] == ["a record before the last one is damaged"]
    assert "byte 16" in (errors[0].at or "")


def test_a_position_that_was_committed_twice(small: SmallTable) -> None:
    path = small.layout.stream_log(small.table, "s")
    log = read_files(small.place.of_stream("s"))
    last = log.records[-1]
    assert isinstance(last, CommitRecord)
    again = replace(last, n=last.n + 1, epoch=last.epoch + 1, batch=replace(last.batch, reports=(), rows=3))
    path.write_bytes(path.read_bytes() + frame(encode(again)))
    taken, rows = check(small).findings
    assert taken.what == "a source file was ingested twice: /feed/3.json"
    assert taken.at == f"epoch 4, byte {log.found.end}"
    assert (rows.what, rows.expected, rows.found) == ("rows of an epoch do not add up", "3", "0")


def test_offsets_that_do_not_go_on(small: SmallTable) -> None:
    read = OffsetRange("t", 0, 5, 20, "id-1")
    small.commit(ranges=(read, OffsetRange("t", 1, 0, 0)))
    small.commit(ranges=(replace(read, start=30, stop=40),), gaps=(replace(read, start=20, stop=30),))
    assert check(small).findings == []
    path = small.layout.stream_log(small.table, "s")
    whole, log = path.read_bytes(), read_files(small.place.of_stream("s"))
    last = log.records[-1]
    assert isinstance(last, CommitRecord)
    for start, stop, what, expected in (
        (30, 40, "offsets were ingested twice", "no offset of them"),
        (35, 50, "offsets were ingested twice", "from offset 40 on"),
        (
            41,
            50,
            "offsets of an epoch do not continue those of the one before: the source does not continue",
            "offset 40",
        ),
    ):
        batch = replace(last.batch, ranges=(replace(read, start=start, stop=stop),), gaps=())
        path.write_bytes(whole + frame(encode(replace(last, n=last.n + 1, epoch=last.epoch + 1, batch=batch))))
        found = only(check(small))
        assert (found.severity, found.what[: len(what)], found.expected) == ("error", what, expected)
        assert found.at == f"epoch 6, byte {log.found.end}"


def test_a_schema_that_was_changed_by_hand(small: SmallTable) -> None:
    path = small.layout.schema(small.table)
    path.write_bytes(path.read_bytes() + b"\n")
    assert "is not the one that was deployed" in only(check(small)).what


def merged(small: SmallTable) -> None:
    small.merge_by_hand(DATE)
    record = load_record(small.place, DATE, 0)
    proof = Proof(record.inputs[0].rows, record.inputs[0].rows, {}, {})
    store_record(small.place, replace(record, proof=proof))


def test_history_is_checked_by_its_merge_record(small: SmallTable) -> None:
    merged(small)
    whats = {f.what for f in check(small).findings}
    assert whats <= {"location index is missing", "grouping column of history has no grouping"}
    path = small.layout.partitions("NS") / "1" / DATE / "T" / "Size.dat"
    flip(path, HEAD)
    errors = [f for f in check(small).findings if f.severity == "error"]
    assert errors[0].path == str(path)
    assert errors[0].what == "checksum does not match. Committed bytes have changed"


def test_merge_records_without_proof_damaged_unfinished_or_ahead(small: SmallTable) -> None:
    merged(small)
    directory = small.layout.merges(small.table) / DATE
    record = load_record(small.place, DATE, 0)

    def whats() -> list[str]:
        return [f.what for f in check(small, deep=False).findings if "index" not in f.what]

    store_record(small.place, replace(record, proof=Proof(2, 1, {}, {})))
    assert whats() == ["merge has no valid proof"]
    ahead = MergeInput("s", "a", record.inputs[0].since, record.inputs[0].epoch, 1000)
    store_record(small.place, replace(record, inputs=(ahead,)))
    assert whats() == ["rows were rolled back after their merge. Reads use only intraday"]
    store_record(small.place, record)
    store_record(small.place, replace(record, generation=1, phase=MergePhase.SYNC, outputs=()))
    assert whats() == ["a merge runs or was interrupted after phase sync"]
    flip(directory / "0.json", 40)
    assert "merge record is cut short or damaged" in whats()


def test_links_that_lead_nowhere(small: SmallTable) -> None:
    links = small.layout.writable_partitions("NS")
    links.mkdir(parents=True)
    (links / "0").symlink_to("../Partitions/0")
    assert only(check(small)).what == "link of a storage partition is broken"


def test_findings_as_text_and_json() -> None:
    found = Finding("E201", "/db/x", "what", "byte 1", "a", "b", "do")
    assert found.text() == "error E201: /db/x: what\n  at: byte 1\n  expected: a\n  found: b\n  to do: do"
    assert found.to_json()["severity"] == "error"


def test_a_head_that_says_something_else_than_the_log(small: SmallTable) -> None:
    path = small.layout.stream_head(small.table, "s")
    small.log().write_head()
    assert check(small).findings == []
    data = path.read_bytes()
    found = decode_head(open_head(data, path), "s", len(data))
    other = replace(found.state, locations=Locations())
    path.write_bytes(encode_head(replace(found, state=other)))
    reported = only(check(small))
    assert (reported.severity, reported.path, reported.found) == ("error", str(path), "other locations")
    assert "delete it" in str(reported.hint)
    path.write_bytes(encode_head(replace(found, mark=(found.mark[0] + 1, found.mark[1]), state=other)))
    assert check(small).findings == []  # of another log: it is not used
    path.write_bytes(data[:-1])
    reported = only(check(small))
    assert (reported.severity, reported.path) == ("note", str(path))
