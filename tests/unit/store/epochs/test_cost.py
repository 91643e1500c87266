"""What things cost, in counts: bytes of a record, locations that are decoded, records that are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.open_table import fill
from benchmarks.parts.commit_cost import open_log
from benchmarks.wide_epochs import TABLE, Found
from benchmarks.wide_epochs import run as run_wide
from sparkhaven.store.epochs.compaction import Compaction
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state import locations
from sparkhaven.store.epochs.state.log_records import Record, decode
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import QuickFs


def run(root: Path, *, epochs: int, locations: int, columns: int) -> Found:
    """Wide epochs whose log is compacted as soon as it may be, without waiting for the disk."""
    return run_wide(root, epochs, locations, columns, keep=4, least=1, fs=QuickFs())


def test_a_commit_record_takes_few_bytes_for_a_location_and_column(tmp_path: Path) -> None:
    found = run(tmp_path, epochs=10, locations=20, columns=20)
    assert max(found.log_bytes) / (20 * 20) < 60
    assert found.floor > 0


def test_one_date_is_read_without_decoding_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, epochs=10, locations=30, columns=3)
    decoded: list[object] = []
    plain = locations.decode_location
    monkeypatch.setattr(
        "sparkhaven.store.epochs.files.checkpoint.decode_location",
        lambda *parts: decoded.append(parts[0]) or plain(*parts),
    )
    state = load_stream(StreamPlace(Fs(), Layout(tmp_path), TABLE, "bench"))
    assert decoded == []
    assert len(state.locations.dates()) == 3
    assert [at.rows for at in state.locations.of_date("d000001")] == [10_000] * 10
    assert len(decoded) == 10


def calls_of_a_start(root: Path, *, locations: int, columns: int, removals: int = 0) -> int:
    """Calls, of Python's functions and of built-in ones, while a writer starts that finds all as it was left."""
    fill(root, locations, dates=5, files=1, removals=removals, columns=columns)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, what: calls.append(event) if event.endswith("call") else None)
    try:
        log = open_log(root)
    finally:
        sys.setprofile(None)
    assert log.recovery.clean and not log.recovery.republished
    log.close()
    return len(calls)


def test_a_start_costs_no_call_for_a_file_and_few_for_a_location(tmp_path: Path) -> None:
    few = calls_of_a_start(tmp_path / "few", locations=20, columns=10)
    more = calls_of_a_start(tmp_path / "more", locations=100, columns=10)
    wider = calls_of_a_start(tmp_path / "wider", locations=100, columns=30)
    assert (more - few) / 80 < 100
    assert (wider - more) / (100 * 20) < 2


def test_a_start_does_not_decode_removals_that_the_head_has_applied(tmp_path: Path) -> None:
    few = calls_of_a_start(tmp_path / "few", locations=5, columns=2)
    more = calls_of_a_start(tmp_path / "more", locations=5, columns=2, removals=2000)
    assert (more - few) / 2000 < 0.5


@pytest.mark.slow
def test_a_slice_of_a_compaction_is_bounded_by_what_batches_have_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[int] = []
    slices: list[int] = []
    step, plain = Compaction.step, StreamState.steps

    def steps(state: StreamState, record: Record) -> Iterator[None]:
        for _ in plain(state, record):
            grown.append(1)
            yield

    def counted(running: Compaction, work: float) -> bool:
        before = len(grown)
        try:
            return step(running, work)
        finally:
            slices.append(len(grown) - before)

    monkeypatch.setattr(Compaction, "step", counted)
    monkeypatch.setattr(StreamState, "steps", steps)
    found = run(tmp_path, epochs=20, locations=40, columns=3)
    assert found.floor > 0 and len(slices) > 3
    assert max(slices) <= 2 * 40 + 1


def test_a_reader_reads_what_comes_after_the_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, epochs=14, locations=10, columns=4)
    seen: list[object] = []

    def counted(payload: bytes, where: object, *, reports: bool = True) -> Record:
        seen.append(where)
        return decode(payload, where, reports=reports)

    monkeypatch.setattr("sparkhaven.store.epochs.reading.log_reader.decode", counted)
    load_stream(StreamPlace(Fs(), Layout(tmp_path), TABLE, "bench"))
    with_head = len(seen)
    load_stream(StreamPlace(Fs(), Layout(tmp_path), TABLE, "bench"), cached=False)
    assert with_head < (len(seen) - with_head) / 2
