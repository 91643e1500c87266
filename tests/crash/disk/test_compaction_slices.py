"""A compaction is killed, or the power goes, between any two of its slices: the old log stands until the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch

pytestmark = pytest.mark.slow
KEYS = [LocationKey(name, f"d{name}") for name in "abcdef"]
EPOCHS = 14


def tell(fs: Fs, root: Path, done: list[int]) -> None:
    """Batches with slices of a compaction between them, the smallest there are."""
    log: StreamLog = open_log(fs, root, keep_epochs=3, compact_bytes=1, head_bytes=1, slice_work=1)
    for number in range(log.state.epoch + 1, EPOCHS + 1):
        write_batch(fs, root, log, {KEYS[1 + number % 5]: [number], KEYS[0]: [-number]}, number)
        done.append(number)
        log.compact_if_due()
        log.compact_if_due()
    log.close()


def rows(root: Path) -> list[int]:
    """All rows as a reader finds them, head or no head."""
    states = [load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM), cached=cached) for cached in (True, False)]
    assert states[0] == states[1]
    return sorted(row for values in read_state(Fs(), root, states[0]).values() for row in values)


def expected(epochs: int) -> list[int]:
    return sorted(row for number in range(1, epochs + 1) for row in (number, -number))


def test_killed_before_any_change_of_the_disk(tmp_path: Path) -> None:
    plain = CrashingFs()
    tell(plain, tmp_path / "plain", [])
    assert plain.steps.count("compaction-slice:before") > 10 and plain.steps.count("log-replace:after") > 1
    for change in some_of(range(3, plain.changes, 13)):
        root, done = tmp_path / f"db{change}", list[int]()
        with pytest.raises(Crash):
            tell(CrashingFs(crash_after=change), root, done)
        if done:
            assert len(rows(root)) >= 2 * len(done), change
        tell(CrashingFs(), root, [])
        assert rows(root) == expected(EPOCHS), change
        assert hidden(Layout(root).streams(TABLE)) == []


def test_powered_off_before_any_change_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = PowerCutFs(tmp_path / "plain")
    tell(plain, tmp_path / "plain", [])
    for seed, change in enumerate(some_of(range(5, plain.changes, 19))):
        root, done = tmp_path / f"db{change}", list[int]()
        root.mkdir()
        fs = PowerCutFs(root, crash_after=change)
        with pytest.raises(Crash):
            tell(fs, root, done)
        fs.cut(seed)
        if done:
            assert len(rows(root)) >= 2 * len(done), change
        tell(CrashingFs(boot="boot-2"), root, [])
        assert rows(root) == expected(EPOCHS), change
