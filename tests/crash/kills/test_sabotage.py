"""What the protocol rests on is taken away, one thing at a time: the harness must turn red each time.

Here positions, locks and the order of symbols. Without a sync of files, directories or the log: ``test_power_cut`` and
``test_stream_crashes`` (models), ``test_power_cut_images`` (real file systems); without checksums: ``test_power_cut``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparkhaven.store.epochs import log as stream_log
from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError, LockLostError
from sparkhaven.store.io.fs import Fs, Lock
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.after_a_crash import EXACT, goes_on
from tests.support.streams.stream_kit import ingest, numbers, open_log, put_file, record
from tests.support.streams.stream_story import Groups, tell, write_feed


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list[Groups]:
    return write_feed(tmp_path_factory.mktemp("feed"))


def replayed(root: Path, story: list[Groups]) -> list[int]:
    """Killed after a commit that its caller never saw, and run again from the first batch."""
    with pytest.raises(Crash):
        tell(CrashingFs(crash_at="publish:before", occurrence=2), root, story)
    return goes_on(root, story)


def test_a_replay_is_seen_by_its_positions(tmp_path: Path, story: list[Groups]) -> None:
    assert replayed(tmp_path, story) == EXACT


def test_without_positions_rows_are_doubled(
    tmp_path: Path, story: list[Groups], monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(state: object, proposed: list[object], gaps: object = ()) -> Resolution:
        return Resolution(tuple(proposed), ())  # type: ignore[arg-type]

    monkeypatch.setattr(StreamState, "classify", believe)
    monkeypatch.setattr(stream_log, "require", lambda *_: None)
    rows = replayed(tmp_path, story)
    assert rows != EXACT
    assert len(rows) > len(set(rows))


class LocklessFs(Fs):
    """Every lock is free."""

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        lock = super().lock(path, wait=wait, make=make)
        return lock or super().lock(path.parent if path.is_dir() else path.with_name("no-lock"), wait=False)


def second_copy(fs: Fs, root: Path) -> None:
    """A second driver must be turned away while the first one lives, and the first one go on."""
    first = open_log(fs, root)
    with pytest.raises(LockLostError):
        open_log(fs, root)
    file = put_file(root / "feed", "1", [record(1)], 1)
    ingest(fs, root, first, [[file]])
    assert numbers(root, first.state) == [1]


def test_a_second_copy_is_turned_away(tmp_path: Path) -> None:
    second_copy(Fs(), tmp_path)


def test_without_locks_the_second_copy_gets_in(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        second_copy(LocklessFs(), tmp_path)


class LateSymbolsFs(PowerCutFs):
    """Symbol texts reach the disk only after the record that counts on them."""

    late: tuple[Path, ...] = ()

    def _sync_file(self, path: Path) -> None:
        if path.name.endswith((".sym", ".sym.bytes")):
            self._change("sync", path)
            self.late += (path,)
        else:
            super()._sync_file(path)

    def step(self, name: str) -> None:
        super().step(name)
        if name == "commit-record:after":
            late, self.late = self.late, ()
            for path in late:
                super()._sync_file(path)


def cuts(base: Path, story: list[Groups], kind: type[PowerCutFs]) -> None:
    """The power goes as soon as a record is synced, at every epoch."""
    for seed in range(12):
        root = base / f"db{seed}"
        root.mkdir()
        fs = kind(root, crash_at="log-sync:after", occurrence=1 + seed % 4)
        with pytest.raises(Crash):
            tell(fs, root, story)
        fs.cut(random.Random(seed).randrange(10**6) // 5 * 5)  # nothing but what was synced
        assert goes_on(root, story, boot="boot-2") == EXACT


@pytest.mark.slow
def test_symbols_are_on_disk_before_the_record_that_counts_on_them(tmp_path: Path, story: list[Groups]) -> None:
    cuts(tmp_path, story, PowerCutFs)


def test_symbols_synced_after_the_record_are_lost(tmp_path: Path, story: list[Groups]) -> None:
    with pytest.raises(CorruptFileError, match="shorter than its committed length"):
        cuts(tmp_path, story, LateSymbolsFs)
