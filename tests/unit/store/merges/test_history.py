"""The history of a date, read once, and what a merge record says of its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, decode_record, encode_record, store_records
from sparkhaven.store.merges.merge_run import (
    Destination,
    ImportedTree,
    MergePhase,
    MergeRun,
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
    return MergeRecord(str(TABLE), DAY, generation, phase, (), (MergeOutput(internal, 1),))


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
