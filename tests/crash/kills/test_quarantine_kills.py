"""Writers of the quarantine, killed before every change of the disk, and a power cut after it.

A row of a committed epoch is there once; a row of another epoch is gone after the next start. The third batch also
compacts the table and writes a checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.delta.log import LOG, list_log
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.changes import Requeue
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine, Thresholds
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.stream_kit import numbers, open_log, put_file, record
from tests.support.writers.quarantine_cases import bad, marks, quarantine_at, rejected_at, restart, take

FS = Fs()
pytestmark = pytest.mark.slow


class Story:
    """Two committed batches with a bad row each, and a third that is to come; ``renew`` brings this state back."""

    def __init__(self, base: Path) -> None:
        self.root, self._copy = base / "db", base / "copy"
        self.thresholds = Thresholds(small_files=3, checkpoint_versions=1)
        feed = base / "feed"
        self.files = [put_file(feed, str(n), [record(2 * n), bad(2 * n + 1)], n) for n in range(3)]
        self.root.mkdir()
        with open_log(FS, self.root) as log:
            for number, file in enumerate(self.files[:2]):
                take(FS, self.root, log, [[file]], quarantine_at(FS, self.root).add, number)
            take(FS, self.root, log, [[put_file(feed, "9", [record(9)], 9)]], None, 2)
        shutil.copytree(self.root, self._copy)

    def quarantine(self, fs: Fs) -> Quarantine:
        return quarantine_at(fs, self.root, thresholds=self.thresholds)

    def renew(self) -> None:
        """The same directory, since the ledger has its path."""
        shutil.rmtree(self.root)
        shutil.copytree(self._copy, self.root)

    def finish(self, acknowledged: bool, where: object) -> None:
        """Starts again: what is there must be right, and the batch is committed once."""
        quarantine = self.quarantine(FS)
        with restart(FS, self.root, quarantine) as log:
            epoch = log.state.epoch
            assert epoch == 4 or (epoch == 3 and not acknowledged), where
            assert [row[0] for row in marks(quarantine)] == [1, 2, 4][: epoch - 1], where
            take(FS, self.root, log, [[self.files[2]]], quarantine.add, 3)
            assert numbers(self.root, log.state) == [0, 2, 4, 9], where
        assert marks(quarantine) == [(1, None), (2, None), (4, None)], where
        assert hidden(quarantine.directory / LOG) == [], where


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def batch(story: Story, fs: Fs, quarantine: Quarantine, log_fs: Fs) -> bool:
    """The third batch; whether it was acknowledged before the process died."""
    log = None
    try:
        log = open_log(log_fs, story.root)
        take(log_fs, story.root, log, [[story.files[2]]], quarantine.add, 3)
    except Crash:
        return False
    finally:
        if log is not None:
            log._lock.release()
    return True


def test_killed_before_every_change_each_row_is_there_once(story: Story) -> None:
    counted = CrashingFs()
    assert batch(story, counted, story.quarantine(counted), FS)
    assert sorted(list_log(FS, story.quarantine(FS).directory).checkpoints) == [2, 3]
    steps = {step.partition(":")[0] for step in counted.steps}
    assert {"quarantine-ledger", "quarantine-write", "quarantine-compact", "quarantine-checkpoint"} <= steps
    assert counted.changes > 20
    for change in some_of(range(counted.changes)):
        story.renew()
        fs = CrashingFs(crash_after=change)
        assert not batch(story, fs, story.quarantine(fs), FS)
        story.finish(False, change)


def test_killed_and_the_feed_mended_no_row_of_the_batch_stays(story: Story) -> None:
    counted = CrashingFs()
    batch(story, counted, story.quarantine(counted), FS)
    for change in some_of(range(2, counted.changes, 3)):
        story.renew()
        fs = CrashingFs(crash_after=change)
        batch(story, fs, story.quarantine(fs), FS)
        with restart(FS, story.root, story.quarantine(FS)):
            assert [row[0] for row in marks(story.quarantine(FS))] == [1, 2]


def test_after_a_power_cut_what_was_acknowledged_is_there_once(story: Story) -> None:
    counted = PowerCutFs(story.root)
    assert batch(story, counted, story.quarantine(counted), counted)
    total = counted.changes
    assert total > 40
    for seed, change in enumerate(some_of([*range(3, total, 3), *range(total, total + 5)])):
        story.renew()
        fs = PowerCutFs(story.root, crash_after=change)
        acknowledged = batch(story, fs, story.quarantine(fs), fs)
        fs.cut(seed)
        story.finish(acknowledged, (change, seed))


def test_a_process_goes_on_after_a_killed_one_and_then_the_power_goes(story: Story) -> None:
    counted = PowerCutFs(story.root)
    batch(story, counted, story.quarantine(counted), counted)
    for seed, change in enumerate(some_of(range(4, counted.changes, 5))):
        story.renew()
        fs = PowerCutFs(story.root, crash_after=change)
        batch(story, fs, story.quarantine(fs), fs)
        fs.dead, fs.crash_after = False, None
        quarantine = story.quarantine(fs)
        with restart(fs, story.root, quarantine) as log:
            take(fs, story.root, log, [[story.files[2]]], quarantine.add, 3)
        fs.cut(seed)
        story.finish(True, (change, seed))


def test_what_a_killed_writer_has_not_synced_is_synced_before_it_is_built_upon(story: Story) -> None:
    """As Spark, which syncs nothing: its process is killed before we do it for Spark."""
    story.thresholds = replace(story.thresholds, checkpoint_versions=10)  # a checkpoint would hide it
    for seed in range(10):
        story.renew()
        fs = PowerCutFs(story.root, sabotage="file", crash_at="quarantine-write:after")
        assert not batch(story, fs, story.quarantine(fs), fs)
        fs.dead, fs.crash_at, fs._sabotage = False, None, None
        quarantine = story.quarantine(fs)
        with restart(fs, story.root, quarantine) as log:
            take(fs, story.root, log, [[story.files[2]]], quarantine.add, 3)
        fs.cut(seed)
        story.finish(True, seed)


def test_without_syncs_rows_are_lost(story: Story) -> None:
    """The test can fail."""
    lost = 0
    for seed in range(10):
        story.renew()
        fs = PowerCutFs(story.root, sabotage="file")
        batch(story, fs, story.quarantine(fs), fs)
        fs.cut(seed)
        try:
            story.finish(True, seed)
        except (AssertionError, SparkhavenError):  # a table that cannot be read is a loss as well
            lost += 1
    assert lost


def edit_of(name: str, base: Path) -> tuple[Callable[[Quarantine], object], list[tuple[int, int | None]]]:
    """A change of a table with rows of epochs 1 to 4, and what comes of it."""
    if name == "drop":
        return lambda quarantine: quarantine.drop(Chosen(epoch=2)), [(1, None), (3, None), (4, None)]
    if name == "drop a file":
        return lambda quarantine: quarantine.drop(Chosen(reason="r"), 2), [(3, None), (4, None)]
    path = base / "requeue"
    return (
        lambda quarantine: quarantine.mark(Requeue(rejected_at(path, 2, 3).path, 0, 7)),
        [(1, None), (2, 7), (3, 7), (4, None)],
    )


def sorted_marks(quarantine: Quarantine) -> list[tuple[int, int | None]]:
    return sorted(marks(quarantine))


@pytest.mark.parametrize("name", ["drop", "drop a file", "mark"])
def test_a_change_is_made_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    """In a file that has rows of another stream, too."""
    five = Thresholds(small_files=5)
    root = tmp_path / "db"
    root.mkdir()
    open_log(FS, root).close()
    quarantine = quarantine_at(FS, root, thresholds=five)
    change, after = edit_of(name, tmp_path)
    for epoch in (1, 2, 3, 4):
        quarantine.add([rejected_at(tmp_path / "r", epoch)], epoch)
    other = quarantine_at(FS, root, "other", five)
    other.add([rejected_at(tmp_path / "r", 2)], 2)
    before = sorted_marks(quarantine)
    shutil.copytree(root, tmp_path / "copy")
    number = 0
    while True:
        fs = CrashingFs(crash_after=number)
        try:
            change(quarantine_at(fs, root, thresholds=five))
            break
        except Crash:
            assert sorted_marks(quarantine) in (before, after), number
            change(quarantine)
            assert sorted_marks(quarantine) == after and marks(other) == [(2, None)], number
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "copy", root)
        number += 1
    assert number > 7 and sorted_marks(quarantine) == after


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    root = tmp_path / "db"
    root.mkdir()
    open_log(FS, root).close()
    streams = ("feed", "other")

    def write(stream: str) -> None:
        quarantine = quarantine_at(FS, root, stream, Thresholds(small_files=8))
        for epoch in range(1, 31):
            quarantine.add([rejected_at(tmp_path / stream, epoch)], epoch)
            if epoch % 10 == 0:
                quarantine.drop(Chosen(epoch=epoch))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, streams))
    expected = [(epoch, None) for epoch in range(1, 31) if epoch % 10]
    for stream in streams:
        assert sorted(marks(quarantine_at(FS, root, stream))) == expected
