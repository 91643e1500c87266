"""A commit log that is lost or older than what was published is noticed by whoever needs it, and nothing is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.files.published_size import publish_location
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.witnesses import Witnesses
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import SMALL_FILE, Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import TablePlace
from tests.support.commands import run_json
from tests.support.disks.contents import contents
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.tiny_writer import STREAM as TINY_STREAM
from tests.support.streams.tiny_writer import TABLE as TINY
from tests.support.streams.tiny_writer import open_log, remove, write_batch
from tests.support.tables.small_tables import SmallTable

DAY, LATER = "2026-11-20", "2026-11-21"
COMMANDS = (
    ("read", "NS.T"),
    ("stats", "NS.T"),
    ("tables",),
    ("verify",),
    ("recover",),
    ("recover", "--dry-run"),
    ("epochs", "list", "NS.T", "s"),
    ("epochs", "show", "NS.T", "s"),
    ("epochs", "rollback", "NS.T", "s", "--to", "0"),
    ("merge", "NS.T", "--date", DAY, "--local"),
)


def _close(small: SmallTable) -> None:
    for log in small.logs.values():
        log.close()
    small.logs.clear()


def _one_day(root: Path) -> SmallTable:
    """Two epochs of one location."""
    small = SmallTable(root)
    small.add("a", DAY, {"Size": [1, 2]})
    small.add("a", DAY, {"Size": [3]})
    _close(small)
    return small


def _log_gone(root: Path) -> None:
    _one_day(root)
    (root / "Intraday/NS/T/.streams/s.log").unlink()


def _log_gone_beside_its_checkpoint(root: Path) -> None:
    small = SmallTable(root)
    small.log(keep_epochs=0)
    small.add("a", DAY, {"Size": [1, 2]})
    assert small.logs["s"].compact_if_due(now=True)
    _close(small)
    (root / "Intraday/NS/T/.streams/s.log").unlink()


def _only_locations_left(root: Path) -> None:
    _one_day(root)
    shutil.rmtree(root / "Intraday/NS/T/.streams")


def _older_streams(root: Path, first: str) -> None:
    small = SmallTable(root)
    small.add(first, DAY, {"Size": [1]})
    streams = root / "Intraday/NS/T/.streams"
    shutil.copytree(streams, root / "copy")
    small.add("a", DAY, {"Size": [2]})
    _close(small)
    shutil.rmtree(streams)
    shutil.move(root / "copy", streams)


def _older_streams_and_a_new_location(root: Path) -> None:
    _older_streams(root, "b")


def _older_streams_whose_location_has_grown(root: Path) -> None:
    _older_streams(root, "a")


def _older_log_than_the_lock(root: Path) -> None:
    small = SmallTable(root)
    small.add("a", DAY, {"Size": [1]})
    log = root / "Intraday/NS/T/.streams/s.log"
    data = log.read_bytes()
    _close(small)
    small.log()  # a generation without an epoch
    _close(small)
    log.write_bytes(data)


def _older_log_than_its_head(root: Path) -> None:
    small = SmallTable(root)
    small.add("a", DAY, {"Size": [1]})
    log = root / "Intraday/NS/T/.streams/s.log"
    data = log.read_bytes()
    small.commit()
    assert small.logs["s"].write_head()
    _close(small)
    log.write_bytes(data)


def _older_log_than_its_checkpoint(root: Path) -> None:
    small = SmallTable(root)
    small.log(keep_epochs=0)
    small.add("a", DAY, {"Size": [1]})
    log = root / "Intraday/NS/T/.streams/s.log"
    data = log.read_bytes()
    small.commit()
    assert small.logs["s"].compact_if_due(now=True)
    _close(small)
    log.write_bytes(data)


def _older_streams_than_a_merge(root: Path) -> None:
    small = SmallTable(root)
    small.add("b", DAY, {"Size": [1]})
    streams = root / "Intraday/NS/T/.streams"
    shutil.copytree(streams, root / "copy")
    small.add("a", DAY, {"Size": [2]})
    small.merge_by_hand(DAY)
    shutil.rmtree(small.location("a", DAY))
    _close(small)
    shutil.rmtree(streams)
    shutil.move(root / "copy", streams)


DAMAGES: tuple[Callable[[Path], None], ...] = (
    _log_gone,
    _log_gone_beside_its_checkpoint,
    _only_locations_left,
    _older_streams_and_a_new_location,
    _older_streams_whose_location_has_grown,
    _older_log_than_the_lock,
    _older_log_than_its_head,
    _older_log_than_its_checkpoint,
    _older_streams_than_a_merge,
)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_tells_of_a_log_that_is_lost_or_older(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(tmp_path)
    before = contents(tmp_path)
    for words in COMMANDS:
        code, result = run_json(tmp_path, *words)
        assert code == 1, (words, result)
        assert "Acknowledged records are lost" in str(result) or "Committed rows cannot be read" in str(result), words
        assert "restore" in str(result).lower(), words
    left = {path: data for path, data in contents(tmp_path).items() if not path.name.endswith((".lock", ".removals"))}
    assert left == {path: data for path, data in before.items() if path in left}


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_writer_starts_on_a_log_that_is_lost_or_older(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(tmp_path)
    with pytest.raises(CorruptFileError, match=r"records are lost|is missing"):
        SmallTable(tmp_path).log()


def test_a_removal_that_is_newer_than_the_log_is_reported(tmp_path: Path) -> None:
    a, b = LocationKey("a", DAY), LocationKey("b", DAY)
    fs, layout = Fs(), Layout(tmp_path)
    with open_log(fs, tmp_path) as log:
        write_batch(fs, tmp_path, log, {a: [1]}, 1)
        older = layout.stream_log(TINY, TINY_STREAM).read_bytes()
        write_batch(fs, tmp_path, log, {b: [2]}, 2)
        remove(fs, tmp_path, Removal(b, 2, 1, "delete", 2))
        shutil.rmtree(layout.intraday_location(TINY, b))
    layout.stream_log(TINY, TINY_STREAM).write_bytes(older)
    with pytest.raises(CorruptFileError, match="older than a removal"):
        open_log(fs, tmp_path)


def test_readers_tell_of_a_removal_that_is_newer_than_the_log(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    older = (tmp_path / "Intraday/NS/T/.streams/s.log").read_bytes()
    small.add("b", DAY, {"Size": [2]})
    write_removals(small.place.of_stream("s"), [Removal(LocationKey("b", DAY), 2, 1, "delete", 2)])
    shutil.rmtree(small.location("b", DAY))
    _close(small)
    (tmp_path / "Intraday/NS/T/.streams/s.log").write_bytes(older)
    with pytest.raises(CorruptFileError, match="older than a removal"):
        open_table(tmp_path, "NS.T")


def test_what_a_live_writer_adds_is_no_finding_for_a_reader_that_was_there_before(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    table = open_table(tmp_path, "NS.T")
    small.add("a", DAY, {"Size": [2]})
    small.add("b", DAY, {"Size": [3]})
    small.add("z", LATER, {"Size": [4]}, stream="new")
    small.merge_by_hand(DAY)
    assert table.count() == 1
    assert open_table(tmp_path, "NS.T").count() == 4
    assert open_table(tmp_path, "NS.T", epoch={"s": 1, "new": 0}).count() == 1
    _close(small)
    small.log()  # one more generation
    assert table.count() == 1


def test_a_reader_gets_the_error_of_the_dates_that_it_reads(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    streams = tmp_path / "Intraday/NS/T/.streams"
    shutil.copytree(streams, tmp_path / "copy")
    small.add("a", LATER, {"Size": [2]})
    _close(small)
    shutil.rmtree(streams)
    shutil.move(tmp_path / "copy", streams)
    table = open_table(tmp_path, "NS.T")
    assert table.count(dates=DAY) == 1
    with pytest.raises(CorruptFileError, match="older than the location"):
        table.count()


def test_history_that_was_moved_without_its_streams_is_read(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.merge_by_hand(DAY, 1)
    _close(small)
    shutil.rmtree(tmp_path / "Intraday")
    assert open_table(tmp_path, "NS.T").count() == 1
    assert "commit log" not in str(run_json(tmp_path, "verify")[1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_numbers_beyond_a_log_that_went_down_with_the_machine_are_passed_over(tmp_path: Path, seed: int) -> None:
    a, b = LocationKey("a", DAY), LocationKey("b", DAY)
    fs = PowerCutFs(tmp_path)

    def begin(fs: Fs) -> StreamLog:
        return open_log(fs, tmp_path, durability="none")

    log = begin(fs)
    write_batch(fs, tmp_path, log, {a: [1]}, 1, sync=False)
    log.sync_now()
    for number in range(2, 6):
        write_batch(fs, tmp_path, log, {b: [number]}, number, sync=False)
    remove(fs, tmp_path, Removal(a, 1, 1, "truncate", log.state.epoch))
    log.write_head()
    fs.cut(seed)
    for number, boot in enumerate(("boot-2", "boot-2", "boot-3"), 10):
        again = PowerCutFs(tmp_path, boot=boot)
        with begin(again) as log:
            assert log.state.epoch >= 5  # the removal is durable, and was recorded at epoch 5
            write_batch(again, tmp_path, log, {b: [number]}, number, sync=False)


def _truncated(small: SmallTable, internal: str) -> None:
    """Recorded, then published, as ``truncate`` does."""
    key = LocationKey(internal, DAY)
    location = load_stream(small.place.of_stream("s")).locations[key]
    removal = Removal(key, location.since, location.rows, "truncate", location.epoch, made_ms=location.made_ms)
    write_removals(small.place.of_stream("s"), [removal])
    emptied = load_stream(small.place.of_stream("s")).locations[key]
    publish_location(small.place.of_stream("s"), emptied)


@pytest.mark.parametrize("kept", ["a", "b"])
def test_removals_that_are_older_than_a_truncate_are_reported_until_it_is_recorded_again(
    tmp_path: Path, kept: str
) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    small.add("b", DAY, {"Size": [2]})
    small.add("a", LATER, {"Size": [3]})
    small.merge_by_hand(DAY)
    _close(small)
    _truncated(small, kept)
    path = tmp_path / "Intraday/NS/T/.streams/s.removals"
    older = path.read_bytes()
    _truncated(small, "b" if kept == "a" else "a")
    assert open_table(tmp_path, "NS.T").count(tier="intraday") == 1
    path.write_bytes(older)
    older_than = "older than what was truncated"
    with pytest.raises(CorruptFileError, match=older_than):
        open_table(tmp_path, "NS.T").count(tier="intraday")
    with pytest.raises(CorruptFileError, match=older_than):
        small.log()
    for words in (("recover",), ("recover", "--dry-run"), ("verify",), ("merge", "NS.T", "--date", LATER, "--local")):
        assert older_than in str(run_json(tmp_path, *words)), words
    _truncated(small, "b" if kept == "a" else "a")
    assert open_table(tmp_path, "NS.T").count(tier="intraday") == 1
    small.log()
    _close(small)


def test_a_truncate_after_the_states_were_loaded_is_no_finding(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    before = load_stream(small.place.of_stream("s"))
    _close(small)
    _truncated(small, "a")
    assert list(Witnesses(small.place, [before]).locations()) == []


def test_a_location_that_is_made_anew_between_two_looks_is_no_finding(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", DAY, {"Size": [1]})
    before = load_stream(small.place.of_stream("s"))
    key, place = LocationKey("a", DAY), small.location("a", DAY)
    _close(small)
    _truncated(small, "a")

    class Meanwhile(Fs):
        anew = False

        def read(self, path: Path) -> bytes:
            data = super().read(path)
            if path == place / "table.size" and not self.anew:
                self.anew = True
                write_removals(small.place.of_stream("s"), [Removal(key, 1, 1, "delete", 1)])
                shutil.rmtree(place)
                small.add("a", DAY, {"Size": [5]})
            return data

    fs = Meanwhile()
    assert list(Witnesses(TablePlace(fs, small.layout, small.table), [before]).locations()) == []
    assert fs.anew
    assert open_table(tmp_path, "NS.T").count() == 1


@pytest.mark.parametrize("damage", ["longer", "a directory"])
def test_a_location_that_is_not_read_as_one_of_many_is_a_witness_too(tmp_path: Path, damage: str) -> None:
    """Its ``table.size`` is longer than one call reads, or is none."""
    _older_streams(tmp_path, "a")
    small = SmallTable(tmp_path)
    place, path = TablePlace(Fs(), small.layout, small.table), small.location("a", DAY) / "table.size"
    older = load_stream(small.place.of_stream("s"))
    if damage == "longer":
        path.write_bytes(path.read_bytes() + b"\0" * SMALL_FILE)
        (found,) = Witnesses(place, [older]).locations()
        assert (found.path, found.found) == (path, f"epoch {older.epoch + 1}")
        return
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        list(Witnesses(place, [older]).locations())
