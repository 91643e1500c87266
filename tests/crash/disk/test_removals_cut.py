"""The power goes while maintenance records removals: all of them or none, and the stream can always be opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.places import StreamPlace
from tests.support.disks.model_fs import Crash
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import some_of
from tests.support.streams.tiny_writer import STREAM, TABLE, open_log, read_state, remove, write_batch

pytestmark = pytest.mark.slow
KEYS = [LocationKey(name, "d") for name in "abcdefgh"]
FULL: dict[LocationKey, list[int]] = {key: [1] for key in KEYS}
EMPTY: dict[LocationKey, list[int]] = {key: [] for key in KEYS}


def test_all_removals_or_none(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with open_log(Fs(), tmp_path / "made") as log:
        write_batch(Fs(), tmp_path / "made", log, FULL, 1)
    seen = set()
    for seed in some_of(range(80)):
        root = tmp_path / f"db{seed}"
        shutil.copytree(tmp_path / "made", root)
        fs = PowerCutFs(root, crash_after=1 + seed // 8)
        done = False
        try:
            removals = [Removal(key, 1, 1, "truncate", 1, {"evidence": "e" * 300}) for key in KEYS]
            remove(fs, root, *removals)
            done = True
        except Crash:
            pass
        fs.cut(seed)
        state = load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM))
        rows = read_state(Fs(), root, state)
        assert rows == EMPTY if done else rows in (FULL, EMPTY), f"seed {seed}"
        with open_log(Fs(), root) as log:
            assert read_state(Fs(), root, log.state) == rows
        if rows == FULL:
            remove(Fs(), root, *(Removal(key, 1, 1, "truncate", 1) for key in KEYS))
            assert read_state(Fs(), root, load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM))) == EMPTY
        seen.add(rows == EMPTY)
    assert seen == {True, False}
