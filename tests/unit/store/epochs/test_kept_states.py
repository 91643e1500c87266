"""The newest state of a stream, as one process asks for it again and again: read on, and never another state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading import stream_state as kept_states
from sparkhaven.store.epochs.reading.stream_state import FEW, Loaded, load_read, load_stream, newest_state
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.tiny_writer import STREAM, TABLE, append, batch_of, log_path, open_log, write_batch

FS, A = CrashingFs(), LocationKey("a", "d")


def place(root: Path) -> StreamPlace:
    return StreamPlace(FS, Layout(root), TABLE, STREAM)


def state(root: Path) -> StreamState:
    """What is kept, after a look that it is what is there."""
    kept = newest_state(place(root)).state
    assert kept == load_stream(place(root), cached=False)
    return kept


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[StreamPlace]:
    """The whole reads of a stream that are not asked for by ``state``."""
    whole: list[StreamPlace] = []

    def read(place: StreamPlace, **how: Any) -> Loaded:
        if not how:  # ``load_stream`` says how
            whole.append(place)
        return load_read(place, **how)

    monkeypatch.setattr(kept_states, "load_read", read)
    return whole


def commit(root: Path, log: StreamLog, numbers: range, keys: list[LocationKey] | None = None) -> None:
    for number in numbers:
        write_batch(FS, root, log, {key: [number] for key in keys or [A]}, number)


def test_a_log_that_grows_is_read_on(tmp_path: Path, reads: list[StreamPlace]) -> None:
    with open_log(FS, tmp_path) as log:
        commit(tmp_path, log, range(1, 3))
        first = state(tmp_path)
        before = load_stream(place(tmp_path))
        for number in range(3, 40):
            commit(tmp_path, log, range(number, number + 1))
            assert state(tmp_path).epoch == number
            if number == 20:
                assert log.write_head()
    assert len(reads) == 1
    assert first == before, "what was handed out stays as it was"


def test_locations_of_large_records_wait(tmp_path: Path, reads: list[StreamPlace]) -> None:
    keys = [LocationKey(f"s{n}", "d") for n in range(FEW + 2)]
    with open_log(FS, tmp_path) as log:
        commit(tmp_path, log, range(1, 2), keys)
        state(tmp_path)
        for number in (2, 3):
            commit(tmp_path, log, range(number, number + 1), keys)
            assert {location.rows for location in state(tmp_path).locations.values()} == {number}
    assert len(reads) == 1


def test_files_of_what_is_read_on_are_not_those_of_before(tmp_path: Path, reads: list[StreamPlace]) -> None:
    with open_log(FS, tmp_path) as log:

        def take(number: int) -> None:
            report = append(FS, tmp_path, log.state.locations.get(A), A, [number])
            log.commit(batch_of([report], number, files=[FileId(f"/feed/{number}", 1, number)]))

        take(1)
        first = newest_state(place(tmp_path)).state
        take(2)
        assert [file.path for file in state(tmp_path).files] == ["/feed/1", "/feed/2"]
        assert [file.path for file in first.files] == ["/feed/1"]
    assert len(reads) == 1


def rolled_back(root: Path, log: StreamLog) -> None:
    log.rollback(2)


def compacted(root: Path, log: StreamLog) -> None:
    log.compact_if_due(now=True)


@pytest.mark.parametrize("change", [rolled_back, compacted])
def test_what_is_read_anew(tmp_path: Path, reads: list[StreamPlace], change: Callable[[Path, StreamLog], None]) -> None:
    with open_log(FS, tmp_path, keep_epochs=1, compact_bytes=1) as log:
        commit(tmp_path, log, range(1, 5))
        state(tmp_path)
        change(tmp_path, log)
        commit(tmp_path, log, range(5, 6))
        state(tmp_path)
    assert len(reads) == 2


def test_another_log_of_the_same_name_is_read_anew(tmp_path: Path, reads: list[StreamPlace]) -> None:
    path = log_path(tmp_path)
    with open_log(FS, tmp_path) as log:
        commit(tmp_path, log, range(1, 3))
        older = path.read_bytes()
        commit(tmp_path, log, range(3, 4))
        state(tmp_path)
        commit(tmp_path, log, range(4, 6))
    newer = path.read_bytes()
    path.write_bytes(older + newer[len(older) :].swapcase())  # the same inode, longer than before
    assert state(tmp_path).epoch == 2 and len(reads) == 2
    path.write_bytes(newer[: len(older)] + newer[len(older) + 1 :])
    with pytest.raises(CorruptFileError):
        newest_state(place(tmp_path))


def test_after_many_records_it_is_read_anew(tmp_path: Path, reads: list[StreamPlace]) -> None:
    with open_log(FS, tmp_path) as log:
        for number in range(1, 11):
            commit(tmp_path, log, range(number, number + 1))
            assert newest_state(place(tmp_path), most_records=3).state.epoch == number
    assert len(reads) == 2
