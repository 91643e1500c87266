"""The quarantine's files, without Delta: what is synced, and a place that has moved."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from jobs.streams.quarantines import settle
from store.epochs.files.ledger import Ledger, read_ledger, write_ledger
from store.epochs.state.replay import StreamState
from store.errors import SettingsError
from store.io.fs import Fs
from store.layout import Layout
from tests.support.streams.stream_kit import STREAM, TABLE
from tests.support.writers.quarantine_cases import quarantine_at
from writers.quarantine.spark_table import sync_delta


class Watching(Fs):
    """Notes what is synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync(self, paths: Iterable[Path]) -> None:
        self.synced += [path.name for path in paths]

    def sync_dirs(self, paths: Iterable[Path]) -> None:
        self.synced += [f"{path.name}/" for path in paths]


def test_every_file_of_a_new_version_is_synced_and_no_older_one(tmp_path: Path) -> None:
    log = tmp_path / "q" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    actions = [{"commitInfo": {}}, {"add": {"path": "two.parquet"}}, {"remove": {"path": "one.parquet"}}]
    (log / "00.json").write_text(json.dumps({"add": {"path": "one.parquet"}}))
    (log / "01.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    for path in (log / "01.crc", log / "_last_checkpoint", tmp_path / "q/one.parquet", tmp_path / "q/two.parquet"):
        path.write_text("")
    fs = Watching()
    sync_delta(fs, tmp_path / "q", frozenset({"00.json"}))
    assert sorted(fs.synced[:-2]) == ["01.crc", "01.json", "_last_checkpoint", "two.parquet"]
    assert fs.synced[-2:] == ["q/", "_delta_log/"]


def test_a_place_that_moved_is_refused_while_the_old_one_has_rows(tmp_path: Path) -> None:
    fs, layout = Fs(), Layout(tmp_path)
    state, quarantine = StreamState(STREAM), quarantine_at(fs, tmp_path)
    old = tmp_path / "old"
    layout.streams(TABLE).mkdir(parents=True)
    write_ledger(fs, layout, TABLE, STREAM, Ledger(str(old), "", 3, 0, ((1, 3),)))
    (old / "_delta_log").mkdir(parents=True)
    (old / "_delta_log" / f"{0:020}.json").write_text("{}")
    with pytest.raises(SettingsError, match="in another place") as caught:
        settle(fs, layout, TABLE, state, quarantine, "x.toml")
    assert (caught.value.expected, caught.value.found) == (str(old), str(quarantine.place))
    assert read_ledger(fs, layout, TABLE, STREAM) == Ledger(str(old), "", 3, 0, ((1, 3),))
    (old / "_delta_log" / f"{0:020}.json").unlink()  # a directory without a version is no table
    settle(fs, layout, TABLE, state, quarantine, "x.toml")
    assert read_ledger(fs, layout, TABLE, STREAM) == Ledger(str(old), "", 3)
