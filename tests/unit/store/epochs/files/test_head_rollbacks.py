"""The head beside a log whose epochs were rolled back, or went down with the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import RolledBackEpochs
from sparkhaven.store.framing import LOG_MAGIC, header
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.head_cases import FS, A, B, epochs, made, newest, place, resumed
from tests.support.streams.tiny_writer import STREAM, TABLE, append, open_log, read_state, write_batch

__all__ = ["made"]


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
