"""The history of a date, read once, and what a merge record says of its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.history import DateHistory, keeps_rows, load_history
from sparkhaven.store.merges.merge_records import (
    ColumnCorrection,
    MergeInput,
    MergeOutput,
    MergeRecord,
    decode_record,
    encode_record,
    store_records,
)
from sparkhaven.store.merges.merge_run import (
    ColumnDrop,
    Destination,
    ImportedTree,
    LeftOut,
    MergePhase,
    MergeRun,
    Proof,
    RunSource,
    decode_run,
    encode_run,
)
from sparkhaven.store.places import TablePlace

TABLE = TableName.parse("Ns.T")
DAY = "2026-11-20"
DESTINATION = Destination("0", "0.g2", Path("/v/.stage-a-2"), Path("/v/0.g2"))
PLANNED = MergeRun(
    sort=("A:desc",),
    format="both",
    partitions=("0",),
    supplements=1,
    destinations=(DESTINATION,),
    work=Path("/v/.stage-a-2/.work"),
    sources=(RunSource("s", "EWR", 1, 7, 0, 3),),
)
RUNS = {
    "none": MergeRun(),
    "planned": PLANNED,
    "published": replace(PLANNED, switched_ms=0),
    "imported": replace(PLANNED, sources=(), formula="0", imported=ImportedTree("1f", "/tree", "flat", 3)),
    "later release": replace(PLANNED, others={"colour": ["red"]}),
}


def record(generation: int, phase: MergePhase, internal: str) -> MergeRecord:
    return MergeRecord(str(TABLE), DAY, generation, phase, (), (MergeOutput(internal, 1, named_by=1),))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_read_as_it_was_written(name: str) -> None:
    run = RUNS[name]
    assert decode_run(encode_run(run)) == run
    stored = replace(record(1, MergePhase.PLAN, "0"), run=run)
    assert decode_record(encode_record(stored), "x") == stored


def test_the_entries_of_a_planned_run_have_their_names_on_disk() -> None:
    assert encode_run(replace(PLANNED, switched_ms=9)) == {
        "sort": ["A:desc"],
        "format": "both",
        "formula": None,
        "partitions": ["0"],
        "supplements": 1,
        "destinations": [["0", "0.g2", "/v/.stage-a-2", "/v/0.g2"]],
        "work": "/v/.stage-a-2/.work",
        "sources": [["s", "EWR", 1, 7, 0, 3]],
        "switched_ms": 9,
    }
    assert encode_run(MergeRun()) == {}


@pytest.mark.parametrize("entry", [{"destinations": [["0"]]}, {"sources": [[1]]}, {"work": 3}, {"import": {}}])
def test_a_run_of_another_form_is_a_corrupt_record(entry: dict[str, object]) -> None:
    odd = replace(record(1, MergePhase.PLAN, "0"), run=MergeRun(others=entry))
    with pytest.raises(CorruptFileError):
        decode_record(encode_record(odd), "x")


def test_a_history_says_what_is_complete_and_alive(tmp_path: Path) -> None:
    fs, layout = Fs(), Layout(tmp_path)
    empty = load_history(TablePlace(fs, layout, TABLE), DAY)
    assert empty == DateHistory(DAY)
    assert (empty.current, empty.last, empty.alive) == (None, None, frozenset())
    done, running = record(9, MergePhase.CLEAN, "0"), record(10, MergePhase.CHECK, "0.g10")
    store_records(TablePlace(fs, layout, TABLE), [running, done])
    history = load_history(TablePlace(fs, layout, TABLE), DAY)
    assert history == empty.after(running).after(done) == DateHistory(DAY, (done, running))
    assert (history.current, history.last, history.alive) == (done, running, frozenset({"0"}))
    published = replace(running, phase=MergePhase.RECORD)
    after = history.after(published)
    assert (after.current, after.complete, after.alive) == (published, (done, published), frozenset({"0.g10"}))


def test_phases_have_an_order() -> None:
    assert MergePhase.CHECK.reached(MergePhase.CHECK)
    assert MergePhase.CLEAN.reached(MergePhase.RECORD)
    assert not MergePhase.SYNC.reached(MergePhase.CHECK)


def record_of(generation: int, inputs: int, *outputs: MergeOutput, **fields: Any) -> MergeRecord:
    taken = (MergeInput("s", "a", 1, 5, inputs),) if inputs else ()
    return MergeRecord(str(TABLE), DAY, generation, MergePhase.CLEAN, taken, outputs, **fields)


ONE, SAME, OTHER = (
    MergeOutput(name, 4, row_digest=digit * 32) for name, digit in (("0", "1"), ("0.g2", "1"), ("0", "2"))
)
LATE = MergeOutput("1.s2", 3, row_digest="5" * 32)
CHANGED = ColumnCorrection(3, "Px", "Px * 2", 2, 4, 4, 4, 4, "0" * 32, "1" * 32)
LEFT_OUT = Proof(5, 4, {}, {}, LeftOut(1))


@pytest.mark.parametrize(
    ("before", "after", "keeps"),
    [
        (record_of(1, 4, ONE), record_of(2, 4, SAME), True),
        (record_of(1, 4, ONE), record_of(2, 4, OTHER), False),
        (None, record_of(1, 4, ONE), True),
        (None, record_of(1, 5, ONE, proof=LEFT_OUT), False),
        (None, record_of(2, 4, OTHER, corrections=(CHANGED,)), False),
        (None, record_of(1, 0), False),  # nothing was merged, and no row says which
        (record_of(1, 4, ONE), record_of(2, 7, SAME, LATE), True),  # all of them again
        (record_of(1, 4, ONE), record_of(2, 4), False),
        (record_of(1, 7, ONE, LATE), record_of(2, 4, ONE), False),  # fewer than before
        (record_of(1, 5, ONE, proof=LEFT_OUT), record_of(2, 8, ONE, LATE, proof=LEFT_OUT), True),  # beside them
        (record_of(1, 5, ONE, proof=LEFT_OUT), record_of(2, 8, SAME, LATE, proof=LEFT_OUT), False),  # in doubt
        (record_of(1, 5, ONE, proof=LEFT_OUT), record_of(2, 9, ONE, LATE, proof=LEFT_OUT), False),
        (record_of(2, 4, OTHER, corrections=(CHANGED,)), record_of(3, 7, OTHER, LATE, corrections=(CHANGED,)), True),
        (record_of(1, 4, OTHER), record_of(3, 7, OTHER, LATE, corrections=(CHANGED,)), False),
        (record_of(1, 4, ONE), record_of(2, 4, SAME, column_drops=(ColumnDrop(7, "C", 1, "0" * 32),)), False),
        (record_of(1, 4, ONE), record_of(2, 4, SAME, column_drops=(ColumnDrop(8, "C", 1, "0" * 32),)), True),
    ],
)
def test_whether_a_reader_of_one_record_finds_its_rows_in_another(
    before: MergeRecord | None, after: MergeRecord, keeps: bool
) -> None:
    assert keeps_rows(before, after, {3, 7}) == keeps


def test_imported_rows_are_those_of_no_epoch() -> None:
    imported = replace(record_of(1, 0, ONE), inputs=(MergeInput("", "x", 0, -1, 4),))
    assert not keeps_rows(None, imported, {3})
