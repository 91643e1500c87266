"""Power cuts while a snapshot is taken, since another one, and while it is restored: it is whole, or none."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import SNAPSHOT_MANIFEST
from sparkhaven.store.layout import Layout
from sparkhaven.writers.transfer.restore import restore
from sparkhaven.writers.transfer.snapshots import take_snapshot
from tests.support.commands import run_json
from tests.support.disks.model_fs import Crash
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge

CUTS = 6


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with a table in ``db``, merged and appended to, and a snapshot ``first`` of it before that."""
    disk = tmp_path_factory.mktemp("disk")
    db, rows = make(disk / "db", 20)
    merge(db.layout)
    db.commit({("c", DAY): as_table(rows)})
    take_snapshot(FS, db.layout, [TABLE], disk / "first", time_ms=1)
    db.commit({("c", DAY): as_table(rows[:5]), ("d", DAY): as_table(rows)})
    db.log.close()
    return disk


def copy(fs: Fs, disk: Path) -> None:
    take_snapshot(fs, Layout(disk / "db"), [TABLE], disk / "second", time_ms=2, since=disk / "first")


def put(fs: Fs, disk: Path) -> None:
    restore(fs, disk / "second", Layout(disk / "back"))


def cut_each(disk: Path, base: Path, work: Callable[[Fs, Path], None], sabotage: str | None = None) -> None:
    """Cuts the power at some changes of ``work``, the last ones among them; then the same must lead to the table."""
    plain = base / "plain"
    shutil.copytree(disk, plain, symlinks=True)
    counted = PowerCutFs(plain)
    work(counted, plain)
    total, chance = counted.changes, random.Random(1)
    some = chance.sample(range(total), CUTS)
    for seed, change in enumerate([*(some if sabotage else some_of(some)), total - 1, total]):
        there = base / f"cut{seed}"
        shutil.copytree(disk, there, symlinks=True)
        fs = PowerCutFs(there, sabotage=sabotage, crash_after=change)
        try:
            work(fs, there)
        except Crash:
            pass
        else:
            assert change == total
        fs.cut(seed)
        check(there, finished=change == total, work=work)


def check(disk: Path, *, finished: bool, work: Callable[[Fs, Path], None]) -> None:
    if work is copy:
        assert not finished or (disk / "second" / SNAPSHOT_MANIFEST).exists()
        if not (disk / "second" / SNAPSHOT_MANIFEST).exists():
            copy(FS, disk)
        restore(FS, disk / "first", Layout(disk / "older"))
    elif finished:
        same(disk)
    put(FS, disk)
    same(disk)


def same(disk: Path) -> None:
    code, compared = run_json(disk / "db", "compare", str(disk / "back"))
    assert (code, compared["equal"]) == (0, True), compared
    assert verify(FS, Layout(disk / "back"), None, deep=True).errors == 0


def test_snapshot_is_whole_or_none_after_a_power_cut(tmp_path: Path, disk: Path) -> None:
    cut_each(disk, tmp_path, copy)


def test_restore_is_repeated_after_a_power_cut(tmp_path: Path, disk: Path) -> None:
    shutil.copytree(disk, tmp_path / "disk", symlinks=True)
    copy(FS, tmp_path / "disk")
    cut_each(tmp_path / "disk", tmp_path, put)


@pytest.mark.parametrize("sabotage", ["file", "dir"])
def test_a_sync_that_is_left_out_is_found(tmp_path: Path, disk: Path, sabotage: str) -> None:
    with pytest.raises((AssertionError, SparkhavenError, OSError)):
        cut_each(disk, tmp_path, copy, sabotage)
