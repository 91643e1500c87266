"""The head beside a log: used where it says what the log says, and for nothing where that cannot be determined."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.files import checkpoint as saved_locations
from sparkhaven.store.epochs.files.head import decode_head, encode_head, open_head
from sparkhaven.store.epochs.reading import log_reader as logs
from sparkhaven.store.epochs.reading.log_reader import read_newest
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions, load_stream
from sparkhaven.store.epochs.state.locations import decode_location
from sparkhaven.store.epochs.state.log_records import Record, decode
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing import frame, scan
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.contents import flip
from tests.support.streams.head_cases import FS, A, B, epochs, made, newest, place, resumed
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch

__all__ = ["made"]
C = LocationKey("c", "d")


def test_only_the_records_after_the_head_are_decoded(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = newest(made)
    assert (len(found.records), found.start.epoch, found.opened.epoch) == (2, 4, 0)
    decoded: list[Record] = []

    def decode_and_tell(payload: bytes, where: object, *, reports: bool = True) -> Record:
        decoded.append(decode(payload, where, reports=reports))
        return decoded[-1]

    monkeypatch.setattr(logs, "decode", decode_and_tell)
    load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM))
    load_joint_positions([StreamPlace(FS, Layout(made), TABLE, STREAM)])
    resumed(made)
    assert len(decoded) == 3 * 2
    load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), epoch=6)
    assert len(decoded) == 3 * 2 + 7 + 6  # commits again, with their locations


def test_a_start_goes_on_from_it(made: Path) -> None:
    before = resumed(made)
    assert before.head_end
    with open_log(FS, made) as log:
        data = Layout(made).stream_log(TABLE, STREAM).read_bytes()
        kept = before.log
        assert kept.source is not None
        assert data[16:].startswith(kept.source.read(kept.start, kept.end - kept.start))
        assert scan(data).frames[4].end == before.head_end
        epochs(made, log, 7)
    assert len(newest(made).records) == 4  # two, the one of the opening, one more
    assert read_state(FS, made, load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)))[A] == [*range(1, 8)]


@pytest.mark.slow
def test_damage_anywhere_in_it_is_no_error(made: Path) -> None:
    path, whole = place(made), place(made).read_bytes()
    unused = 0
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        unused += newest(made).head is None  # else what is damaged in it comes from the log
        if at % 2:
            assert read_newest(StreamPlace(FS, Layout(made), TABLE, STREAM), held=True).head is None
    assert 0 < unused < len(whole) // 3
    for data in (b"", whole[:7], whole[:40], whole[:-1], b"\0" * len(whole), whole + b"x"):
        path.write_bytes(data)
        assert newest(made).head is None
    path.write_bytes(whole)
    assert newest(made).head is not None


def test_a_start_decodes_what_was_touched_since_and_keeps_the_rest_in_memory(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[LocationKey] = []

    def decode_and_tell(key: LocationKey, *parts: Any) -> LocationState:
        decoded.append(key)
        return decode_location(key, *parts)

    monkeypatch.setattr(saved_locations, "decode_location", decode_and_tell)
    with open_log(FS, made) as log:
        epochs(made, log, 7)
        log.write_head()
    wanted = load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), cached=False)
    with open_log(FS, made) as log:
        decoded.clear()
        write_batch(FS, made, log, {C: [1]}, 90)
    with open_log(FS, made) as log:
        assert decoded == [] and log.recovery.clean
        place(made).write_bytes(b"something else")  # the same file: what was read of it stays
        state, stored = log.state, log.state.locations.stored()
        assert stored is not None and set(stored.keys) == {A, B}
        assert set(state.locations) == {A, B, C} and len(state.locations) == 3
        assert {key: state.locations[key] for key in (A, B)} == dict(wanted.locations)
        assert set(decoded) == {A, B} and set(state.files) >= set(wanted.files)
        left = state.locations.stored()
        assert left is not None and left.keys == []


def test_an_unreadable_one_is_no_error(made: Path) -> None:
    place(made).unlink()
    assert newest(made).head is None
    place(made).mkdir()
    assert newest(made).head is None


def test_a_log_that_ends_before_it(made: Path) -> None:
    path = Layout(made).stream_log(TABLE, STREAM)
    frames, data = scan(path.read_bytes()).frames, path.read_bytes()
    path.write_bytes(data[: frames[4].end])
    assert newest(made).records == ()
    path.write_bytes(data[: frames[4].end - 1])
    assert newest(made).head is None
    path.write_bytes(data[: frames[2].end])
    assert newest(made).head is None


def test_another_record_of_the_same_number(made: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    with open_log(FS, other, query_id="another") as log:
        for number in range(1, 7):
            write_batch(FS, other, log, {A: [number * 7]}, number)
        log.write_head()
    assert newest(other).head is not None
    shutil.copy(place(made), place(other))
    assert newest(other).head is None


def test_a_log_with_a_gap_is_reported_though_the_head_would_cover_it(made: Path) -> None:
    path = Layout(made).stream_log(TABLE, STREAM)
    data = path.read_bytes()
    frames = scan(data).frames
    head = decode_head(open_head(place(made).read_bytes(), "head"), STREAM, 0)
    assert head.mark == (frames[4].offset, frame(frames[4].payload)[:8])
    for there in (4, 5):
        place(made).write_bytes(encode_head(replace(head, mark=(head.mark[0], frame(frames[there].payload)[:8]))))
        for gap, end in ((0, None), (1, None), (5, None)):
            path.write_bytes(data[: frames[gap].offset] + data[frames[gap].end : end])
            with pytest.raises(CorruptFileError, match="gap"):
                load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM))


def test_damage_of_the_log_before_it_is_reported_by_a_start_and_by_verify(made: Path) -> None:
    path = Layout(made).stream_log(TABLE, STREAM)
    flip(path, 60)
    assert load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)).epoch == 6  # nothing of it is used
    with pytest.raises(CorruptFileError, match="damaged"):
        load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), cached=False)
    with pytest.raises(CorruptFileError, match="damaged"):
        resumed(made)


def test_an_older_epoch_is_read_without_it(made: Path) -> None:
    for epoch in range(1, 7):
        state = load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), epoch=epoch)
        assert (state.epoch, read_state(FS, made, state)[A]) == (epoch, [*range(1, epoch + 1)])


def test_what_a_killed_replace_of_it_left_goes_at_the_next_start(made: Path) -> None:
    left = place(made).with_name(f".{place(made).name}.tmp-7")
    left.write_bytes(b"half")
    with open_log(FS, made):
        assert not left.exists()
