"""After a power cut in mode ``periodic`` the recovery itself is killed, at every change; the next one still goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.published_size import TABLE_SIZE, read_published
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.layout import Layout, LocationKey
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.tiny_writer import TABLE, open_log, read_state, write_batch

pytestmark = pytest.mark.slow
A, B, C = (LocationKey(name, "d") for name in "abc")
EPOCHS = [{A: [1], B: [2]}, {A: [3], C: [4]}, {B: [5], C: [6]}]


def newest_published(root: Path) -> int:
    """The newest epoch that a whole record of a location names."""
    sizes = ((path, path.read_bytes()) for path in Layout(root).intraday(TABLE).rglob(TABLE_SIZE))
    found = [read_published(data, path) for path, data in sizes]
    return max((record.epoch or 0 for record in found if record), default=0)


def rows_at(epoch: int) -> dict[LocationKey, list[int]]:
    rows: dict[LocationKey, list[int]] = {}
    for added in EPOCHS[:epoch]:
        for key, values in added.items():
            rows[key] = rows.get(key, []) + values
    return rows


def test_a_killed_recovery_is_ended_by_the_next(tmp_path: Path) -> None:
    ahead = 0
    for seed in some_of(range(16)):
        root = tmp_path / f"db{seed}"
        root.mkdir()
        fs = PowerCutFs(root)
        log = open_log(fs, root, durability="periodic")
        for number, rows in enumerate(EPOCHS, 1):
            write_batch(fs, root, log, rows, number, sync=False)
            if number == 1:
                log.sync_now()
        if seed % 2:  # data and records of locations reached the disk, the log did not
            fs._sync_file_system(root, None)
            log_path = Layout(root).stream_log(TABLE, "feed")
            records = log_path.read_bytes()
        fs.cut(seed)
        if seed % 2:
            log_path.write_bytes(records[: -(len(records) // (3 + seed))])
        published = newest_published(root)
        for change in range(1, 60, 2):
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(root, copy)
            try:
                with open_log(CrashingFs(boot="boot-2", crash_after=change), copy, durability="periodic"):
                    finished = True
            except Crash:
                finished = False
            again = CrashingFs(boot="boot-2")
            with open_log(again, copy, durability="periodic") as log:
                found = read_state(again, copy, log.state)
                assert found in [rows_at(epoch) for epoch in (1, 2, 3)], (seed, change)
                ahead += log.state.epoch > len(EPOCHS)
                epoch = write_batch(again, copy, log, {A: [7], C: [8]}, 9)
                assert epoch > published, (seed, change)
                assert read_state(again, copy, log.state)[C] == [*found.get(C, []), 8]
                for key in (A, C):
                    path = Layout(copy).intraday_location(TABLE, key) / TABLE_SIZE
                    assert decode(path.read_bytes(), path).epoch == epoch
            if finished:
                break
    assert ahead
