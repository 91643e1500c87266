"""A location whose files lack committed bytes: the stream can go back, or set the location aside and go on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.recover import preview_recovery
from sparkhaven.store.epochs.recovery.set_aside import set_aside
from sparkhaven.store.errors import CorruptFileError, SettingsError
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run_json
from tests.support.disks.model_fs import Crash, CrashingFs, FaultFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch
from tests.support.tables.small_tables import SmallTable

FS = CrashingFs()


def _damaged(root: Path) -> Layout:
    """Three epochs; the file of the last one lacks its last byte."""
    with open_log(FS, root) as log:
        write_batch(FS, root, log, {A: [1, 2], B: [3]}, 1)
        write_batch(FS, root, log, {A: [4]}, 2)
        write_batch(FS, root, log, {A: [5]}, 3)
    path = Layout(root).intraday_location(TABLE, A) / "N.dat"
    FS.truncate(path, path.stat().st_size - 1)
    return Layout(root)


def test_a_stream_goes_back_to_an_epoch_before_the_damage(tmp_path: Path) -> None:
    _damaged(tmp_path)
    with pytest.raises(CorruptFileError, match="shorter"):
        open_log(FS, tmp_path)
    with open_log(FS, tmp_path, leave_damaged=True) as log:
        with pytest.raises(CorruptFileError, match="shorter"):
            write_batch(FS, tmp_path, log, {B: [6]}, 4)
        assert log.rollback(2) == 4
        write_batch(FS, tmp_path, log, {A: [7]}, 5)
    with open_log(FS, tmp_path) as log:
        assert read_state(FS, tmp_path, log.state) == {A: [1, 2, 4, 7], B: [3]}


def test_an_epoch_that_needs_the_damage_cannot_be_gone_back_to_and_nothing_is_recorded(tmp_path: Path) -> None:
    layout = _damaged(tmp_path)
    path = layout.intraday_location(TABLE, A) / "N.dat"
    FS.truncate(path, 4096 + 8)
    with open_log(FS, tmp_path, leave_damaged=True) as log:
        size = layout.stream_log(TABLE, STREAM).stat().st_size
        for to in (2, 1):
            with pytest.raises(CorruptFileError, match=f"epoch {to} has a damaged location"):
                log.rollback(to)
        assert layout.stream_log(TABLE, STREAM).stat().st_size == size
        assert log.rollback(0) == 4
        assert log.state.locations == {}


@pytest.mark.parametrize(("cut", "to", "code"), [(1, 1, 0), (17, 1, 1), (17, 0, 0)])
def test_dry_run_and_run_of_a_rollback_agree(tmp_path: Path, cut: int, to: int, code: int) -> None:
    small = SmallTable(tmp_path)
    for rows in ([1, 2], [3, 4], [5]):
        small.add("a", A.value, {"Size": rows, "Px": [float(row) for row in rows]})
    small.logs["s"].close()
    path = small.location("a", A.value) / "Px.dat"
    os.truncate(path, path.stat().st_size - 8 - cut)
    words = "epochs", "rollback", "NS.T", "s", "--to", str(to)
    assert [run_json(tmp_path, *words, "--dry-run")[0], run_json(tmp_path, *words)[0]] == [code, code]


class ReadOnlyFs(Fs):
    """A file system that is mounted read-only."""

    def _change(self, path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def _mkdir(self, path: Path) -> None:
        self._change(path)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        self._change(path)

    def write_new(self, path: Path, data: bytes, *, allocate: bool = False) -> None:
        self._change(path)

    def truncate(self, path: Path, length: int) -> None:
        self._change(path)

    def rename(self, source: Path, target: Path) -> None:
        self._change(target)

    def unlink(self, path: Path) -> None:
        self._change(path)

    def _sync_file(self, path: Path) -> None:
        self._change(path)

    def _sync_dir(self, path: Path) -> None:
        self._change(path)

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        if make and path.is_file():
            self._change(path)
        return super().lock(path, wait=wait, make=make)


@pytest.mark.parametrize("durability", ["fsync", "periodic"])
def test_a_dry_run_needs_no_permission_to_write(tmp_path: Path, durability: str) -> None:
    log = open_log(FS, tmp_path, durability=durability)
    write_batch(FS, tmp_path, log, {A: [1, 2]}, 1)
    log.abandon()  # without a sync
    path = Layout(tmp_path).intraday_location(TABLE, A) / "N.dat"
    FS.write_at(path, path.stat().st_size, b"tail")
    fs = ReadOnlyFs()
    fs.boot_id = FS.boot_id  # type: ignore[method-assign]
    report = preview_recovery(StreamPlace(fs, Layout(tmp_path), TABLE, STREAM), time_ms=0)
    assert (report.cut_bytes, report.lost_epochs) == (4, ())
    with pytest.raises(SettingsError, match="cannot be opened"):
        open_log(fs, tmp_path)


def test_a_full_disk_at_the_opening_is_reported_with_what_to_do(tmp_path: Path) -> None:
    fs = FaultFs("write", name="feed.log", code=errno.ENOSPC)
    with pytest.raises(Exception, match="cannot be opened") as caught:
        open_log(fs, tmp_path)
    assert "free space" in str(caught.value)


# --- setting aside -----------------------------------------------------------------------------------------


def _with_a_missing_file(root: Path) -> SmallTable:
    small = SmallTable(root)
    small.add("a", A.value, {"Size": [1, 2]})
    small.add("b", A.value, {"Size": [3]})
    small.logs.pop("s").close()
    (small.location("a", A.value) / "Size.dat").unlink()
    return small


def test_a_damaged_location_is_set_aside_and_named_by_every_report(tmp_path: Path) -> None:
    small = _with_a_missing_file(tmp_path)
    assert run_json(tmp_path, "recover")[0] == 1
    code, result = run_json(tmp_path, "recover", "NS.T", "s", "--quarantine", "a/2026-11-20")
    assert code == 0, result
    place = tmp_path / "Intraday/NS/T/a/2026-11-20/.set-aside-T-1"
    assert (place / "Px.dat").exists()
    assert result["set_aside"][0]["path"] == str(place)
    assert "committed file is missing" in result["set_aside"][0]["reason"]
    small.add("b", A.value, {"Size": [4]})  # the stream goes on
    small.add("a", A.value, {"Size": [5]})
    small.logs.pop("s").close()
    for words in (("read", "NS.T"), ("merge", "NS.T", "--date", A.value, "--local")):
        code, result = run_json(tmp_path, *words)
        assert code == 1
        assert "set aside" in str(result)
    code, result = run_json(tmp_path, "read", "NS.T", "--skip-set-aside")
    assert (code, result["rows"], len(result["set_aside"])) == (0, 3, 1)
    for more in (("verify", "NS.T"), ("stats", "NS.T"), ("recover",), ("tables",)):
        code, result = run_json(tmp_path, *more)
        assert code == 0, result
        assert str(place) in str(result), more


def test_verify_tells_what_was_moved_away_by_its_name(tmp_path: Path) -> None:
    _with_a_missing_file(tmp_path)
    assert run_json(tmp_path, "recover", "NS.T", "s", "--quarantine", "a/2026-11-20")[0] == 0
    code, result = run_json(tmp_path, "verify", "NS.T")
    place = tmp_path / "Intraday/NS/T/a/2026-11-20"
    reported = [(found["severity"], found["path"], found["what"]) for found in result["findings"]]
    what = "2 rows of a/2026-11-20, stream s, were set aside"
    assert (code, reported) == (0, [("warning", str(place / ".set-aside-T-1"), what)])
    (place / ".set-aside-T-9").mkdir()
    (place / ".doomed-T-9").mkdir()
    (place.parent / "2026-11-21").mkdir()
    _, result = run_json(tmp_path, "verify", "NS.T")
    reported = [(found["severity"], Path(found["path"]).name, found["what"]) for found in result["findings"][1:]]
    assert reported == [
        ("note", ".doomed-T-9", "moved away: history has its rows"),
        ("note", ".set-aside-T-9", "set aside by a recovery: not part of the table"),
        ("warning", "2026-11-21", "no stream has committed this. Readers ignore it"),
    ]
    (place / "T").mkdir()
    _, result = run_json(tmp_path, "verify", "NS.T")
    assert (str(place), "no stream has committed this. Readers ignore it") in [
        (found["path"], found["what"]) for found in result["findings"]
    ]


def test_a_location_that_the_stream_does_not_have_cannot_be_set_aside(tmp_path: Path) -> None:
    _with_a_missing_file(tmp_path)
    assert run_json(tmp_path, "recover", "NS.T", "s", "--quarantine", "zz/2026-11-20")[0] == 2
    assert run_json(tmp_path, "recover", "--quarantine", "a/2026-11-20")[0] == 2


def test_rows_that_history_has_are_not_missed(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", A.value, {"Size": [1, 2]})
    small.merge_by_hand(A.value)
    small.logs.pop("s").close()
    (small.location("a", A.value) / "Size.dat").unlink()
    assert run_json(tmp_path, "recover", "NS.T", "s", "--quarantine", "a/2026-11-20")[0] == 0
    code, result = run_json(tmp_path, "read", "NS.T")
    assert (code, result["rows"]) == (0, 2)


def _set_aside(fs: Fs, root: Path) -> None:
    set_aside(StreamPlace(fs, Layout(root), TABLE, STREAM), A, reason="a test", time_ms=1)


def _story(root: Path) -> int:
    """How many changes of the disk setting aside makes."""
    _damaged(root)
    fs = CrashingFs()
    _set_aside(fs, root)
    return fs.changes


@pytest.mark.slow
def test_a_kill_or_a_power_cut_at_any_change_leaves_a_location_that_can_be_set_aside_again(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for after in some_of(range(_story(tmp_path / "plain")), 6):
        for seed in some_of((None, 0, 1, 2, 3, 4)):
            root = tmp_path / f"{after}-{seed}"
            root.mkdir()
            layout = _damaged(root)
            fs = PowerCutFs(root, crash_after=after)
            with pytest.raises(Crash):
                _set_aside(fs, root)
            if seed is not None:
                fs.cut(seed)
            again = CrashingFs(boot="boot-2")
            if A in load_stream(StreamPlace(again, layout, TABLE, STREAM)).locations:
                with pytest.raises(CorruptFileError):
                    open_log(again, root)
                _set_aside(again, root)
            with open_log(again, root) as log:
                assert read_state(again, root, log.state) == {B: [3]}
                assert [each.rows for each in log.recovery.set_aside] == [4]
                write_batch(again, root, log, {A: [9]}, 9)
            held = layout.intraday_location(TABLE, A).with_name(".set-aside-Rows-1")
            assert sorted(FS.names(held)) == [".stream", "N.dat", "T.bytes", "T.dat", "table.size", "table.tbl"]
