"""Streams with a head beside their log, for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.log_reader import Newest, read_newest
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions, load_stream
from sparkhaven.store.epochs.recovery.resume import Resumed, resume
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import CrashingFs
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, write_batch

FS = CrashingFs()
A, B = LocationKey("a", "d"), LocationKey("b", "d")


def place(root: Path) -> Path:
    return Layout(root).stream_head(TABLE, STREAM)


def newest(root: Path) -> Newest:
    """What is read for the newest state, after a look that it is the state of the whole log."""
    layout = Layout(root)
    whole = load_stream(StreamPlace(FS, layout, TABLE, STREAM), cached=False)
    assert load_stream(StreamPlace(FS, layout, TABLE, STREAM)) == whole
    assert load_joint_positions([StreamPlace(FS, layout, TABLE, STREAM)]) == (whole.files, whole.offsets)
    return read_newest(StreamPlace(FS, layout, TABLE, STREAM))


def resumed(root: Path, *, boot: str = "boot-1") -> Resumed:
    return resume(StreamPlace(CrashingFs(boot=boot), Layout(root), TABLE, STREAM), boot_id=boot, time_ms=1)


def epochs(root: Path, log: StreamLog, *numbers: int, sync: bool = True) -> None:
    for number in numbers:
        read = OffsetRange("t", 0, number, number + 1)
        write_batch(FS, root, log, {A: [number], B: [-number]}, number, ranges=[read], sync=sync)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Six epochs and a head at the fourth."""
    with open_log(FS, tmp_path) as log:
        epochs(tmp_path, log, 1, 2, 3, 4)
        assert log.write_head()
        epochs(tmp_path, log, 5, 6)
    return tmp_path
