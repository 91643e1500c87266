"""Rollback, removals and compaction of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.checkpoint import decode_checkpoint
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_joint_positions, load_stream
from sparkhaven.store.epochs.state.log_values import LocationReport, LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CorruptFileError, EpochConflictError, TableNotFoundError
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.framing import scan
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.types.committed_columns import RangeStats
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import (
    STREAM,
    TABLE,
    append,
    batch_of,
    location_path,
    open_log,
    read_location,
    read_state,
    remove,
    write_batch,
)

FS = CrashingFs()  # spares the disk the syncs


def _epochs(root: Path, count: int, **settings: object) -> None:
    with open_log(FS, root, **settings) as log:
        for number in range(1, count + 1):
            write_batch(FS, root, log, {A: [number]}, number)


# --- rollback ----------------------------------------------------------------------------------------------


def test_rollback_is_a_new_epoch_with_the_old_state_and_positions(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1)
        write_batch(FS, tmp_path, log, {A: [2], B: [3]}, 2)
        assert log.rollback(1) == 3
        assert [file.path for file in log.state.files] == ["/feed/1"]
        assert read_state(FS, tmp_path, log.state) == {A: [1]}
        assert FS.stat(location_path(tmp_path, B)) is None
        record = decode(FS.read(location_path(tmp_path, A) / TABLE_SIZE), "table.size")
        assert (record.size, record.epoch) == (1, 3)
        assert write_batch(FS, tmp_path, log, {A: [2], B: [3]}, 2) == 4
    entries = list_epochs(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
    assert [(e.epoch, e.kind, e.live, e.restores) for e in entries] == [
        (1, "commit", True, None),
        (2, "commit", False, None),
        (3, "rollback", True, 1),
        (4, "commit", True, None),
    ]
    with pytest.raises(TableNotFoundError, match="rolled back"):
        load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM), epoch=2)
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        with pytest.raises(TableNotFoundError):
            log.rollback(2)
        with pytest.raises(TableNotFoundError):
            log.rollback(5)
        assert log.rollback(4) == 4


def test_positions_read_alone_are_those_of_the_whole_state(tmp_path: Path) -> None:
    _epochs(tmp_path, 5, keep_epochs=2)
    with open_log(FS, tmp_path) as log:
        log.rollback(3)
        write_batch(FS, tmp_path, log, {A: [9]}, 9)
    state = load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))
    files, offsets = load_joint_positions([StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)])
    assert [file.path for file in files] == ["/feed/1", "/feed/2", "/feed/3", "/feed/9"]
    assert (list(files), files.horizon, offsets) == (list(state.files), state.horizon, state.offsets)


def test_readers_that_mapped_a_file_keep_its_rows_over_a_rollback(tmp_path: Path) -> None:
    fs = Fs()
    with open_log(fs, tmp_path) as log:
        write_batch(fs, tmp_path, log, {A: [1]}, 1)
        write_batch(fs, tmp_path, log, {A: [2]}, 2)
        path = location_path(tmp_path, A) / "N.dat"
        mapped, before = fs.map(path, 4096 + 16), fs.stat(path)
        log.rollback(1)
        write_batch(fs, tmp_path, log, {A: [9]}, 3)
        after = fs.stat(path)
    assert before is not None and after is not None and before.inode != after.inode
    assert mapped.to_pybytes()[4096:] == (1).to_bytes(8, "little") + (2).to_bytes(8, "little")


# --- removals ----------------------------------------------------------------------------------------------


def test_a_truncated_location_takes_no_more_rows_and_a_deleted_one_begins_anew(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        write_batch(FS, tmp_path, log, {A: [1, 2], B: [3]}, 1)
        stale = log.state.locations[A]
        remove(FS, tmp_path, Removal(A, 1, 2, "truncate", 1, {"digest": "d"}))
        record = decode(FS.read(location_path(tmp_path, A) / TABLE_SIZE), "table.size")
        assert (record.size, record.truncated, dict(record.data_file_sizes)) == (0, True, {})
        with pytest.raises(EpochConflictError, match="the location was truncated"):
            log.commit(batch_of([append(FS, tmp_path, stale, A, [4])], 2))
        assert read_state(FS, tmp_path, load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM), epoch=1)) == {
            A: [],
            B: [3],
        }
        remove(FS, tmp_path, Removal(A, 1, 0, "delete", 1))
        FS.remove_tree(location_path(tmp_path, A))
        assert write_batch(FS, tmp_path, log, {A: [5]}, 2) == 2
        assert (log.state.locations[A].since, log.state.locations[A].rows) == (2, 1)
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        assert read_state(FS, tmp_path, log.state) == {A: [5], B: [3]}


def test_removals_survive_compaction_rollback_and_a_torn_tail(tmp_path: Path) -> None:
    path = Layout(tmp_path).stream_removals(TABLE, STREAM)
    with open_log(FS, tmp_path, keep_epochs=2) as log:
        for number in range(1, 4):
            write_batch(FS, tmp_path, log, {A: [number], B: [number]}, number)
        remove(FS, tmp_path, Removal(A, 1, 3, "truncate", 3))
        for number in range(4, 8):
            write_batch(FS, tmp_path, log, {B: [number]}, number)
        assert log.compact_if_due(now=True)
        assert log.rollback(5) == 8
        remove(FS, tmp_path, Removal(B, 1, 5, "truncate", 8))
    FS.write_at(path, path.stat().st_size, b"\x20\0\0\0torn")
    with open_log(FS, tmp_path) as log:
        assert read_state(FS, tmp_path, log.state) == {A: [], B: []}
        assert log.state.locations[A].truncated
    remove(FS, tmp_path, Removal(A, 1, 0, "delete", 8))
    assert len(read_removals(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).entries) == 3
    data = path.read_bytes()
    for at in range(16, scan(data).frames[-1].offset):
        FS.write_new(path, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptFileError):
            read_removals(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM))


def test_a_removal_above_the_floor_is_not_folded_below_it(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, keep_epochs=2) as log:
        for number in range(1, 5):
            write_batch(FS, tmp_path, log, {A: [number]}, number)
        remove(FS, tmp_path, Removal(A, 1, 4, "truncate", 4))
        assert log.compact_if_due(now=True)
        assert log.state.floor == 2
    assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).locations[A].truncated
    checkpoint = decode_checkpoint(FS.read(Layout(tmp_path).stream_checkpoint(TABLE, STREAM)), STREAM, "checkpoint")
    assert (checkpoint.state.locations[A].rows, checkpoint.removals) == (2, 0)


# --- compaction --------------------------------------------------------------------------------------------


def test_compaction_keeps_the_epochs_asked_for(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, keep_epochs=3, compact_bytes=1) as log:
        for number in range(1, 7):
            assert not log.compact_if_due()
            write_batch(FS, tmp_path, log, {A: [number]}, number)
        assert log.compact_if_due()
        assert (log.state.floor, log.state.epoch) == (3, 6)
        write_batch(FS, tmp_path, log, {A: [7]}, 7)
    layout = Layout(tmp_path)
    for epoch in range(3, 8):
        state = load_stream(StreamPlace(FS, layout, TABLE, STREAM), epoch=epoch)
        assert read_location(FS, tmp_path, state.locations[A]) == list(range(1, epoch + 1))
        assert len(state.files) == epoch
    with pytest.raises(TableNotFoundError, match="before the rollback floor") as caught:
        load_stream(StreamPlace(FS, layout, TABLE, STREAM), epoch=2)
    assert "3 to 7" in str(caught.value)


def test_a_reader_between_the_two_renames_of_a_compaction_reads_again(tmp_path: Path) -> None:
    _epochs(tmp_path, 6, keep_epochs=1)

    class Racing(CrashingFs):
        """Compacts after the reader has read the checkpoint (there is none yet) and before it reads the log."""

        done = False

        def stat(self, path: Path, *, follow: bool = True) -> object:  # type: ignore[override]
            found = super().stat(path, follow=follow)
            if path.suffix == ".checkpoint" and not self.done:
                self.done = True
                with open_log(FS, tmp_path, keep_epochs=1) as log:
                    assert log.compact_if_due(now=True)
            return found

    state = load_stream(StreamPlace(Racing(), Layout(tmp_path), TABLE, STREAM))
    assert (state.floor, state.epoch) == (5, 6)
    assert read_state(FS, tmp_path, state) == {A: [1, 2, 3, 4, 5, 6]}


@pytest.mark.slow
def test_state_does_not_grow_with_epochs(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    sizes: list[tuple[int, int, int, int]] = []
    with open_log(FS, tmp_path, keep_epochs=20, compact_bytes=20_000, clock=lambda: 2e9, max_file_age_s=50) as log:
        for number in range(1, 10_001):
            base = log.state.locations.get(A)
            if number == 1:
                report = append(FS, tmp_path, None, A, [1])
            else:  # the row itself is not written again: the log does not look at it
                assert base is not None
                report = _grown(base)
            log.commit(batch_of([report], number))
            if number % 200 == 0:
                log.publish()
            log.compact_if_due()
            if number in (1_000, 10_000):
                assert log.compact_if_due(now=True)
                checkpoint = layout.stream_checkpoint(TABLE, STREAM).stat().st_size
                ranges = len(log.state.locations[A].stats["N"])
                sizes.append((checkpoint // 100, len(log.state.files), ranges, log.state.epoch - log.state.floor))
    assert sizes[0][1:] == sizes[1][1:] == (51, 1, 20)
    assert sizes[1][0] <= sizes[0][0] + 2


def _grown(base: LocationState) -> LocationReport:
    """One more row; the files stay as they are, the log does not look at them."""
    stats = {"N": RangeStats(base.rows, base.rows + 1, 0, 0, base.rows, base.rows)}
    return LocationReport(base.key, base.epoch, base.rows, base.rows + 1, base.files, stats)
