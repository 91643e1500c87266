"""The head beside a log: when it is written, and that nothing depends on it."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.log_reader import read_newest
from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import FaultFs
from tests.support.streams.head_cases import FS, A, epochs, made, newest, place
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, write_batch

__all__ = ["made"]


@pytest.mark.parametrize("kind", ["write", "rename"])
def test_no_room_for_it_is_no_error(tmp_path: Path, kind: str) -> None:
    fs = FaultFs(kind, name=".head", code=errno.ENOSPC)
    with open_log(fs, tmp_path, head_bytes=1) as log:
        write_batch(fs, tmp_path, log, {A: [1]}, 1)
        assert not log.compact_if_due()
        assert not place(tmp_path).exists()
        write_batch(fs, tmp_path, log, {A: [2]}, 2)
        log.compact_if_due()
        assert place(tmp_path).exists()
    assert fs.failed == 1
    with open_log(FS, tmp_path):
        assert sorted(path.name for path in Layout(tmp_path).streams(TABLE).iterdir()) == [
            f"{STREAM}.{suffix}" for suffix in ("head", "lock", "log", "removals")
        ]
    assert newest(tmp_path).head is not None


def test_it_is_written_when_the_log_has_outgrown_it(tmp_path: Path) -> None:
    sizes = []
    with open_log(FS, tmp_path, keep_epochs=10_000, head_bytes=5_000) as log:
        for number in range(1, 150):
            epochs(tmp_path, log, number)
            FS.steps.clear()
            assert not log.compact_if_due()
            if "write-head:after" in FS.steps:
                sizes.append((log._file.length, place(tmp_path).stat().st_size))
    assert FS.steps == []  # closing writes none
    ends = [0, *(end for end, _ in sizes)]
    grown = [after - before for before, after in pairwise(ends)]
    least = [5_000, *(max(5_000, 2 * size) for _, size in sizes)]
    assert 5 < len(grown) < 40
    assert all(least[i] <= grown[i] < least[i] + 2_000 for i in range(len(grown)))


def test_by_default_a_small_stream_has_none(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        for number in range(1, 30):
            epochs(tmp_path, log, number)
            log.compact_if_due()
    assert not place(tmp_path).exists()


def test_a_generation_that_is_no_more_writes_none(made: Path) -> None:
    old = open_log(FS, made)
    lock = Layout(made).stream_lock(TABLE, STREAM)
    lock.unlink()
    with open_log(FS, made), pytest.raises(LockLostError):
        old.write_head()
    old.abandon()


def test_a_plain_file_system_reads_it(made: Path) -> None:
    assert read_newest(StreamPlace(Fs(), Layout(made), TABLE, STREAM)).head is not None


@pytest.mark.slow
def test_by_default_an_opened_table_costs_a_few_hundred_epochs_at_most(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        for number in range(1, 700):
            epochs(tmp_path, log, number)
            log.compact_if_due()
    assert len(newest(tmp_path).records) < 400
