"""Merge records: bytes, damage, and which one decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import (
    KIND,
    MergeInput,
    MergeOutput,
    MergeRecord,
    all_values,
    decode_record,
    encode_record,
    generations,
    load_record,
    newest,
    store_record,
)
from sparkhaven.store.merges.merge_run import LeftOut, MergePhase, MergeRun, Proof
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from tests.support.places import REPOSITORY

TABLE = TableName("NS", "T")
SMALL = MergeRecord("NS.T", "2026-11-20", 0, MergePhase.PLAN, (), ())
FULL = MergeRecord(
    table="NS.T",
    value="2026-11-20",
    generation=3,
    phase=MergePhase.RECORD,
    inputs=(MergeInput("s", "EWR", 4, 9, 100), MergeInput("s", "JFK", 5, 9, 7)),
    outputs=(
        MergeOutput(
            "0",
            107,
            {"A": "0" * 32},
            {"A.dat": FileState(428, 0xDEADBEEF)},
            {"A": (RangeStats(0, 107, 1, 0, -5, 9), RangeStats(107, 200, 0, 2, 0.5, float("inf"), False))},
            named_by=1,
        ),
    ),
    proof=Proof(107, 107, {"A": "0" * 32}, {"A": "0" * 32}),
    source="history",
    schema_version=2,
    time_ms=1,
    replaces=("0",),
    run=MergeRun(sort=("A",)),
)


def test_a_record_comes_back_as_it_was() -> None:
    assert decode_record(encode_record(FULL), "x") == FULL
    assert decode_record(encode_record(SMALL), "x") == SMALL


def test_golden_bytes() -> None:
    payload = (
        b'{"details":{},"generation":0,"inputs":[],"outputs":[],"phase":"plan","proof":null,"replaces":[],'
        b'"schemaVersion":1,"source":"intraday","table":"NS.T","timeMs":0,"value":"2026-11-20"}'
    )
    head = bytes.fromhex("5348564d5247330a 0000000000000000 b5000000 a56659d8")
    assert encode_record(SMALL) == head + payload


@pytest.mark.parametrize("cut", [0, 7, 8, 15, 23, 24, 60, -1])
def test_every_cut_is_found(cut: int) -> None:
    with pytest.raises(CorruptFileError):
        decode_record(encode_record(FULL)[:cut], "x")


def test_every_flipped_byte_is_found() -> None:
    data = encode_record(SMALL)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x04
        with pytest.raises((CorruptFileError, UnsupportedVersionError)):
            decode_record(bytes(damaged), "x")


def test_a_damaged_payload_names_the_byte() -> None:
    data = bytearray(encode_record(SMALL))
    data[30] ^= 1
    with pytest.raises(CorruptFileError) as caught:
        decode_record(bytes(data), "/db/9.json")
    assert caught.value.what == "merge record is cut short or damaged"
    assert caught.value.where == "/db/9.json at byte 16"
    assert caught.value.found == f"0 frames, then {len(data) - 16} bytes"


def test_another_version_is_not_guessed_at() -> None:
    data = encode_record(SMALL)
    for other in (b"SHVMRG4", b"SHVMRG2"):
        with pytest.raises(UnsupportedVersionError, match="other bytes"):
            decode_record(data.replace(b"SHVMRG3", other), "x")


def test_the_newest_complete_record_decides(tmp_path: Path) -> None:
    fs, layout = Fs(), Layout(tmp_path)
    assert newest(TablePlace(fs, layout, TABLE), "2026-11-20") is None
    assert all_values(TablePlace(fs, layout, TABLE)) == []
    store_record(TablePlace(fs, layout, TABLE), replace(SMALL, phase=MergePhase.CLEAN, generation=9))
    store_record(TablePlace(fs, layout, TABLE), replace(SMALL, phase=MergePhase.RECORD, generation=10))
    store_record(TablePlace(fs, layout, TABLE), replace(SMALL, phase=MergePhase.CHECK, generation=11))
    (layout.merges(TABLE) / "2026-11-20" / "plan.txt").write_text("not a record")
    assert generations(TablePlace(fs, layout, TABLE), "2026-11-20") == [9, 10, 11]
    found = newest(TablePlace(fs, layout, TABLE), "2026-11-20")
    assert found is not None and found.generation == 10
    running = newest(TablePlace(fs, layout, TABLE), "2026-11-20", complete=False)
    assert running is not None and running.generation == 11
    older = newest(TablePlace(fs, layout, TABLE), "2026-11-20", below=10)
    assert older is not None and older.generation == 9
    assert all_values(TablePlace(fs, layout, TABLE)) == ["2026-11-20"]


def test_a_record_in_a_foreign_place_is_refused(tmp_path: Path) -> None:
    fs, layout = Fs(), Layout(tmp_path)
    store_record(TablePlace(fs, layout, TABLE), SMALL)
    directory = layout.merges(TABLE) / "2026-11-20"
    (directory / "0.json").rename(directory / "1.json")
    with pytest.raises(CorruptFileError, match="in a wrong directory"):
        load_record(TablePlace(fs, layout, TABLE), "2026-11-20", 1)


def test_a_proof_holds_only_when_all_is_equal() -> None:
    good = Proof(3, 2, {"A": "1"}, {"A": "1"}, LeftOut(1))
    assert good.holds
    assert not replace(good, left_out=LeftOut()).holds
    assert not replace(good, digests_out={"A": "2"}).holds


def test_java_knows_the_form_of_the_records() -> None:
    source = (REPOSITORY / "java/io/sparkhaven/spark/snapshot/HistoryNames.java").read_text(encoding="utf-8")
    assert f'MAGIC = "{KIND.magic.decode().rstrip()}\\n"' in source
