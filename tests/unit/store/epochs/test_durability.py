"""Durability levels: when epochs become durable, and which of them a power failure leaves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CommitUnknownError, CorruptFileError
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.framing import scan
from sparkhaven.store.io.fs import SYNCFS_FROM
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import CrashingFs, FaultFs
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import (
    STREAM,
    TABLE,
    append,
    batch_of,
    location_path,
    log_path,
    open_log,
    read_state,
    remove,
    write_batch,
)

FS = CrashingFs()  # spares the disk the syncs


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_epochs_are_visible_at_once_and_durable_after_a_sync(tmp_path: Path, durability: str) -> None:
    with open_log(FS, tmp_path, durability=durability) as log:
        FS.steps.clear()
        write_batch(FS, tmp_path, log, {A: [1]}, 1, sync=False)
        assert "log-sync:before" not in FS.steps
        assert (load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).epoch, log.state.durable) == (1, 0)
        assert log.sync_now() == 1
        assert load_stream(StreamPlace(FS, Layout(tmp_path), TABLE, STREAM)).durable == 1
        length = log_path(tmp_path).stat().st_size
        assert log.sync_now() == 1
        assert log_path(tmp_path).stat().st_size == length


def test_a_sync_record_comes_after_everything_that_it_speaks_of_is_on_disk(tmp_path: Path) -> None:
    events: list[tuple[str, str]] = []

    class Telling(CrashingFs):
        def _change(self, kind: str, path: Path) -> None:
            super()._change(kind, path)
            events.append((kind, path.name))

    fs = Telling()
    with open_log(fs, tmp_path, durability="periodic") as log:
        write_batch(fs, tmp_path, log, {A: [1]}, 1, sync=False)
        events.clear()
        log.sync_now()
    record = events.index(("write", "feed.log"))
    before = events[:record]
    assert {name for kind, name in before if kind == "sync"} == {
        "N.dat",
        "T.dat",
        "T.bytes",
        "table.tbl",
        ".stream",
        "feed.log",
    }
    assert [name for kind, name in before if kind == "sync-dir"] == ["Rows", "2026-11-20", "a", "Rows"]
    assert events[record + 1 :] == [("sync", "feed.log")]


def test_after_a_power_cut_the_longest_prefix_whose_checksums_hold_is_kept(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, durability="periodic") as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1)
        log.sync_now()
        for number in (2, 3, 4):
            write_batch(FS, tmp_path, log, {A: [number], B: [number]}, number)
        log._lock.release()  # gone without a close
    FS.write_at(location_path(tmp_path, A) / "N.dat", 4096 + 16, bytes(8))  # row 3, of epoch 3
    with open_log(CrashingFs(boot="boot-2"), tmp_path, durability="periodic") as log:
        assert log.recovery.lost_epochs == (3, 4)
        assert (log.state.epoch, log.state.durable) == (5, 5)
        assert read_state(FS, tmp_path, log.state) == {A: [1, 2], B: [2]}
        assert [file.path for file in log.state.files] == ["/feed/1", "/feed/2"]
    with open_log(CrashingFs(boot="boot-3"), tmp_path, durability="periodic") as log:
        assert log.recovery.clean


def test_damage_to_what_was_durable_is_not_a_loss_but_corruption(tmp_path: Path) -> None:
    with open_log(FS, tmp_path, durability="periodic") as log:
        write_batch(FS, tmp_path, log, {A: [1]}, 1)
    FS.truncate(location_path(tmp_path, A) / "N.dat", 4096)
    with pytest.raises(CorruptFileError, match="shorter than its committed length"):
        open_log(CrashingFs(boot="boot-2"), tmp_path, durability="periodic")


@pytest.mark.parametrize("synced", [True, False])
def test_a_damaged_record_is_a_loss_only_where_it_was_never_synced(tmp_path: Path, synced: bool) -> None:
    with open_log(FS, tmp_path, durability="periodic") as log:
        for number in (1, 2):
            write_batch(FS, tmp_path, log, {A: [number]}, number)
        if synced:
            log.sync_now()
        log._lock.release()  # gone without a close
    path = log_path(tmp_path)
    data = bytearray(path.read_bytes())
    data[scan(bytes(data)).frames[1].end - 1] ^= 1  # epoch 1
    FS.write_new(path, bytes(data))
    if synced:
        with pytest.raises(CorruptFileError, match="before the last one is damaged"):
            open_log(CrashingFs(boot="boot-2"), tmp_path, durability="periodic")
    else:
        with pytest.raises(CorruptFileError, match="before the last one is damaged"):
            open_log(FS, tmp_path, durability="periodic")  # same boot: nothing can be lost, so it is damage
        with open_log(CrashingFs(boot="boot-2"), tmp_path, durability="periodic") as log:
            assert (log.state.epoch, log.recovery.clean, dict(log.state.locations)) == (3, False, {})
            assert log.recovery.lost_epochs == (1, 2)  # published, so their numbers are not given again


def test_a_location_that_was_truncated_since_its_commit_is_not_published_again(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        log.commit(batch_of([append(FS, tmp_path, None, A, [1, 2])], 1))
        remove(FS, tmp_path, Removal(A, 1, 2, "truncate", 1))
        log.publish()  # the driver stood still in between
    path = location_path(tmp_path, A) / TABLE_SIZE
    record = decode(FS.read(path), path)
    assert (record.size, record.truncated) == (0, True)


class ForgetfulFs(FaultFs):
    """A disk that could not write one file: the sync fails once, then the cache alone has the bytes past ``kept``."""

    def __init__(self, path: Path, kept: int, **settings: object) -> None:
        super().__init__("sync", name=path.name, **settings)  # type: ignore[arg-type]
        self.path, self.kept = path, kept

    def drop_cached(self, paths: Iterable[Path]) -> None:
        if self.path in paths:
            data = self.path.read_bytes()
            self.path.write_bytes(data[: self.kept] + bytes(len(data) - self.kept))


def test_rows_of_a_sync_that_failed_are_read_again_from_the_disk_before_they_count(tmp_path: Path) -> None:
    path = location_path(tmp_path, A) / "N.dat"
    fs = ForgetfulFs(path, 4096 + 8, nth=2)
    with pytest.raises(CommitUnknownError), open_log(fs, tmp_path, durability="periodic") as log:
        write_batch(fs, tmp_path, log, {A: [1]}, 1, sync=False)
        assert log.sync_now() == 1
        write_batch(fs, tmp_path, log, {A: [2], B: [3]}, 2, sync=False)
        log.sync_now()
    with open_log(fs, tmp_path, durability="periodic") as log:  # here the sync of the same file succeeds
        assert (log.recovery.lost_epochs, log.state.durable) == ((2,), 3)
        assert read_state(fs, tmp_path, log.state) == {A: [1]}
        assert write_batch(fs, tmp_path, log, {A: [2], B: [3]}, 2, sync=False) == 4
    with open_log(fs, tmp_path) as log:
        assert read_state(fs, tmp_path, log.state) == {A: [1, 2], B: [3]}


def test_the_sync_of_many_files_is_watched_from_before_they_are_written(tmp_path: Path) -> None:
    watched: list[bool] = []

    class Watching(CrashingFs):
        def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
            watched.append(descriptor is not None)

    fs = Watching()
    with open_log(fs, tmp_path, durability="periodic") as log:
        keys = [LocationKey(str(number), "d") for number in range(SYNCFS_FROM)]
        write_batch(fs, tmp_path, log, {key: [1] for key in keys}, 1, sync=False)
        log.sync_now()
    assert watched == [True]
