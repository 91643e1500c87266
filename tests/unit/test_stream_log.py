"""The commit log on a real file system: epochs, positions, recovery, rollback, fencing."""

from __future__ import annotations

from pathlib import Path

from store.epochs.load import load_stream
from store.epochs.publish import TABLE_SIZE
from store.format.tablesize import decode
from store.fs import Fs
from store.layout import Layout, LocationKey
from tests.crash.tiny_writer import STREAM, TABLE, open_log, read_state, write_batch

A, B = LocationKey("a", "2026-11-20"), LocationKey("b", "2026-11-20")
FS = Fs()


def test_epochs_are_readable_at_each_number_and_survive_a_new_generation(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        assert write_batch(FS, tmp_path, log, {A: [1, 2]}, 1) == 1
        assert write_batch(FS, tmp_path, log, {A: [3], B: [4]}, 2) == 2
    with open_log(FS, tmp_path) as log:
        assert log.recovery.clean
        assert (log.state.generation, log.state.epoch) == (2, 2)
        assert write_batch(FS, tmp_path, log, {B: [5]}, 3) == 3
    layout = Layout(tmp_path)
    rows = [read_state(FS, tmp_path, load_stream(FS, layout, TABLE, STREAM, epoch=e)) for e in range(4)]
    assert rows == [{}, {A: [1, 2]}, {A: [1, 2, 3], B: [4]}, {A: [1, 2, 3], B: [4, 5]}]
    record = decode(FS.read(layout.intraday_location(TABLE, B) / TABLE_SIZE), "table.size")
    assert (record.size, record.epoch, record.stream) == (2, 3, STREAM)
