"""The head beside a log: used where it says what the log says, and for nothing where that cannot be determined."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.files import saved_locations
from sparkhaven.store.epochs.files.head import decode_head, encode_head, open_head
from sparkhaven.store.epochs.reading import log_reader as logs
from sparkhaven.store.epochs.reading.log_reader import read_newest
from sparkhaven.store.epochs.reading.stream_state import load_positions, load_stream
from sparkhaven.store.epochs.state.locations import decode_location
from sparkhaven.store.epochs.state.log_records import Record, decode
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.rollbacks import RolledBackEpochs
from sparkhaven.store.epochs.state.tombstone import Removal
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.framing.log_frames import LOG_MAGIC, frame, header, scan
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.head_cases import FS, A, B, epochs, made, newest, place, resumed
from tests.support.streams.tiny_writer import STREAM, TABLE, append, batch_of, open_log, read_state, remove, write_batch

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
    load_positions(StreamPlace(FS, Layout(made), TABLE, STREAM))
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


def test_truncated_locations_are_known_without_decoding_others(made: Path) -> None:
    with open_log(FS, made) as log:
        location = log.state.locations[A]
        remove(
            FS, made, Removal(A, location.since, location.rows, "truncate", log.state.epoch, {}, 5, location.made_ms)
        )
        assert log.state.locations.truncated() == []
        log.refresh()
        assert [one.key for one in log.state.locations.truncated()] == [A]
        log.write_head()
    with open_log(FS, made) as log:
        assert [one.key for one in log.state.locations.truncated()] == [A]
        left = log.state.locations.stored()
        assert left is not None and left.keys == [B]
        log.write_head()
    place(made).unlink()
    with open_log(FS, made) as log:
        assert log.state.locations.stored() is None
        assert [one.key for one in log.state.locations.truncated()] == [A]


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


@pytest.mark.parametrize(("to", "used"), [(3, False), (4, True), (5, True)])
def test_a_rollback_behind_it(made: Path, to: int, used: bool) -> None:
    with open_log(FS, made) as log:
        log.rollback(to)
        assert (newest(made).head is not None) == used
        log.write_head()
        assert newest(made).records == ()
        found = resumed(made)
        assert found.undone.dead == ((to, 7),)
        assert found.undone.locations == frozenset([A, B])
        epochs(made, log, to + 1)
    assert newest(made).head is not None
    assert read_state(FS, made, load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)))[A] == [*range(1, to + 2)]


def test_a_head_after_a_compaction_names_what_was_rolled_back_since(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, keep_epochs=2) as log:
        epochs(tmp_path, log, 1, 2)
        log.rollback(1)
        epochs(tmp_path, log, 2, 3)
        log.rollback(4)
        epochs(tmp_path, log, 3)
        assert log.compact_if_due(now=True) and log.state.floor == 4  # the first rollback goes, the second stays
        assert log.write_head()
        with_head = resumed(tmp_path)
        assert with_head.undone == RolledBackEpochs(((4, 6),), frozenset({A, B}))
        place(tmp_path).unlink()
        assert resumed(tmp_path).undone == with_head.undone


def test_a_location_that_was_rolled_back_is_found_beyond_the_head(tmp_path: Path) -> None:
    """A task of an older generation may keep its directory through one start; the next one still knows it."""
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1)
        write_batch(FS, tmp_path, log, {B: [2]}, 2)
        log.rollback(1)
        append(FS, tmp_path, None, B, [3])
        (Layout(tmp_path).intraday_location(TABLE, B) / ".stream").write_text("gone")
        (Layout(tmp_path).streams(TABLE) / "other.log").write_bytes(header(LOG_MAGIC, 0))  # so it is not alone
        log.write_head()
    (Layout(tmp_path).streams(TABLE) / "other.log").unlink()
    found = resumed(tmp_path)
    assert found.head_end
    assert found.undone.locations == frozenset([B])
    with open_log(FS, tmp_path) as log:
        (moved,) = log.recovery.moved
        assert moved.path == Layout(tmp_path).intraday_location(TABLE, B), "it may be a copy: its mark names no one"


def test_an_older_epoch_is_read_without_it(made: Path) -> None:
    for epoch in range(1, 7):
        state = load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM), epoch=epoch)
        assert (state.epoch, read_state(FS, made, state)[A]) == (epoch, [*range(1, epoch + 1)])


def test_removals_before_and_after_it(made: Path) -> None:
    with open_log(FS, made) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        log.refresh()
        log.write_head()
        remove(FS, made, Removal(B, 1, 6, "truncate", 6, {}, 6), Removal(B, 1, 0, "delete", 6, {}, 7))
        FS.remove_tree(Layout(made).intraday_location(TABLE, B))
    found = newest(made)
    assert found.head is not None
    assert found.start.locations[A].truncated
    state = load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM))
    assert (set(state.locations), state.locations[A].truncated) == ({A}, True)


def test_removals_that_a_power_cut_took(made: Path) -> None:
    path = Layout(made).stream_removals(TABLE, STREAM)
    with open_log(FS, made) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        end = path.stat().st_size
        remove(FS, made, Removal(B, 1, 6, "truncate", 6, {}, 6))
        log.refresh()
        log.write_head()
    assert newest(made).head is not None
    whole = path.read_bytes()
    path.write_bytes(whole[:end])
    assert newest(made).head is None
    assert not load_stream(StreamPlace(FS, Layout(made), TABLE, STREAM)).locations[B].truncated
    other = Removal(A, 1, 6, "truncate", 6, {}, 6)  # as long as the one that is gone
    remove(FS, made, other)
    assert path.stat().st_size == len(whole)
    assert newest(made).head is None


def test_a_truncated_location_that_a_rollback_names_is_the_same_from_both_sides(made: Path) -> None:
    with open_log(FS, made, clock=lambda: 9e6) as log:
        remove(FS, made, Removal(A, 1, 6, "truncate", 6, {}, 5))
        log.refresh()
        log.write_head()
        log.rollback(5)
        assert log.state.locations[A].time_ms == 5
    assert newest(made).head is None
    with open_log(FS, made, clock=lambda: 9e6) as log:
        log.commit(batch_of([append(FS, made, log.state.locations[B], B, [1])], 9))
        log.write_head()
        log.commit(batch_of([append(FS, made, log.state.locations[B], B, [1])], 10))
        log.rollback(8)
    assert newest(made).head is not None


def test_a_compaction_replaces_it_and_one_of_another_checkpoint_is_not_used(made: Path) -> None:
    old = place(made).read_bytes()
    with open_log(FS, made, keep_epochs=3) as log:
        assert log.compact_if_due(now=True)
        assert log.state.floor == 3
        assert (newest(made).opened.epoch, newest(made).records) == (3, ())
        place(made).write_bytes(old)  # its record is still in the log
        assert newest(made).head is None
        log.write_head()
        assert newest(made).opened.epoch == 3
        assert newest(made).records == ()
        epochs(made, log, 7)
    with open_log(FS, made, keep_epochs=3):
        assert len(newest(made).records) == 2


def test_between_the_two_files_of_a_compaction(made: Path) -> None:
    layout = Layout(made)
    log_bytes = layout.stream_log(TABLE, STREAM).read_bytes()
    with open_log(FS, made, keep_epochs=3) as log:
        log.compact_if_due(now=True)
        log.write_head()
        frames = scan(layout.stream_log(TABLE, STREAM).read_bytes()).frames
    opened = scan(log_bytes).frames
    whole = header(LOG_MAGIC, 0) + b"".join(frame(f.payload) for f in (*opened, frames[-1]))
    layout.stream_log(TABLE, STREAM).write_bytes(whole)  # the log begins before the checkpoint
    found = newest(made)
    assert found.head is None  # its place in the log is another one
    assert len(found.records) == len(frames)


def test_a_head_at_the_checkpoint_itself(made: Path) -> None:
    path = Layout(made).stream_log(TABLE, STREAM)
    with open_log(FS, made, keep_epochs=0) as log:
        data = path.read_bytes()
        log.compact_if_due(now=True)
        log.write_head()
        assert newest(made).head is None
    path.write_bytes(data)
    assert newest(made).head is None
    assert resumed(made).state.epoch == 6


def test_epochs_that_went_down_with_the_machine_stay_dead_beyond_it(tmp_path: Path) -> None:
    path = Layout(tmp_path).stream_log(TABLE, STREAM)
    with open_log(FS, tmp_path, durability="periodic") as log:
        epochs(tmp_path, log, 1)
        log.sync_now()
        data = path.read_bytes()
        epochs(tmp_path, log, 2)
        log.abandon()
    path.write_bytes(data)
    with open_log(CrashingFs(boot="boot-2"), tmp_path, durability="periodic") as log:
        assert log.recovery.lost_epochs == (2,)
        log.write_head()
    with_head = resumed(tmp_path)
    place(tmp_path).unlink()
    assert with_head.undone == resumed(tmp_path).undone == RolledBackEpochs(((1, 3),))


def test_what_a_killed_replace_of_it_left_goes_at_the_next_start(made: Path) -> None:
    left = place(made).with_name(f".{place(made).name}.tmp-7")
    left.write_bytes(b"half")
    with open_log(FS, made):
        assert not left.exists()


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_epochs_that_are_not_known_to_be_on_disk_are_looked_at_whatever_it_says(
    tmp_path: Path, durability: str
) -> None:
    with open_log(FS, tmp_path, durability=durability) as log:
        epochs(tmp_path, log, 1, sync=False)
        log.sync_now()
        epochs(tmp_path, log, 2, 3, sync=False)
        log.write_head()
        epochs(tmp_path, log, 4, sync=False)
        log.abandon()  # killed
    assert newest(tmp_path).start.durable == 1
    path = Layout(tmp_path).intraday_location(TABLE, A) / "N.dat"
    with path.open("r+b") as file:
        file.seek(4096 + 8 * 2)
        file.write(b"lost")
    assert resumed(tmp_path, boot="boot-2").lost == (3, 4)
    assert resumed(tmp_path, boot="boot-2").head_end == 0
    with open_log(CrashingFs(boot="boot-2"), tmp_path, durability=durability) as log:
        assert log.state.durable == log.state.epoch
        log.write_head()
        epochs(tmp_path, log, 3, sync=False)
        log.abandon()
    with path.open("r+b") as file:
        file.seek(4096 + 8 * 2)
        file.write(b"lost")
    found = resumed(tmp_path, boot="boot-3")
    assert found.lost == (6,)
    assert found.head_end
    assert (found.state.epoch, len(found.state.files)) == (7, 2)
