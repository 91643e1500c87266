"""The copy of the log that a start makes while it plans: early on its way to the disk, gone where the start fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.streams.locations import A, B
from tests.support.streams.tiny_writer import STREAM, TABLE, log_path, open_log, read_state, write_batch

FS = CrashingFs()  # spares the disk the syncs
ROWS = {A: [1, 2], B: [3]}
T = TypeVar("T")


class NotingFs(CrashingFs):
    """Notes when a file is on its way to the disk, and when the core looks at directories."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def start_writeback(self, path: Path) -> None:
        self.noted.append(f"{path.stat().st_size} bytes")
        super().start_writeback(path)

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        self.noted.append("directories")
        return super().read_together(paths, read)


def filled(root: Path) -> None:
    with open_log(FS, root) as log:
        write_batch(FS, root, log, {A: [1]}, 1)
        write_batch(FS, root, log, {A: [2], B: [3]}, 2)


def rows(root: Path) -> object:
    return read_state(FS, root, load_stream(StreamPlace(FS, Layout(root), TABLE, STREAM)))


def streams(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log_path(root).parent.iterdir()}


def test_the_kept_records_go_to_the_disk_before_directories_are_looked_at(tmp_path: Path) -> None:
    filled(tmp_path)
    size, fs = log_path(tmp_path).stat().st_size, NotingFs()
    open_log(fs, tmp_path).close()
    assert fs.noted == [f"{size} bytes", "directories"]
    assert log_path(tmp_path).stat().st_size > size


def test_a_refused_start_leaves_the_streams_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path)
    before = streams(tmp_path)
    column = next(Layout(tmp_path).intraday_location(TABLE, A).glob("*.dat"))
    data = column.read_bytes()
    column.write_bytes(data[:-1])
    with pytest.raises(CorruptFileError, match="shorter"):
        open_log(FS, tmp_path)
    assert streams(tmp_path) == before
    column.write_bytes(data)
    open_log(FS, tmp_path).close()
    assert rows(tmp_path) == ROWS


@pytest.mark.parametrize("crash_after", range(4))
def test_what_a_killed_start_has_copied_is_never_read(tmp_path: Path, crash_after: int) -> None:
    filled(tmp_path)
    with pytest.raises(Crash):
        open_log(CrashingFs(crash_after=crash_after), tmp_path)
    temporary = log_path(tmp_path).with_name(f".{log_path(tmp_path).name}.tmp-{os.getpid()}")
    temporary.write_bytes(bytes(10 * log_path(tmp_path).stat().st_size))  # of the same process id, and longer
    assert rows(tmp_path) == ROWS
    with open_log(FS, tmp_path) as log:
        assert not temporary.exists() and log.state.epoch == 2
        write_batch(FS, tmp_path, log, {B: [4]}, 3)
    assert rows(tmp_path) == {A: [1, 2], B: [3, 4]}
