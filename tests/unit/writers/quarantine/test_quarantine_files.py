"""The quarantine's files, without Delta: what is synced, and a place that has moved."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.jobs.streams.stream_run import settle
from sparkhaven.store.delta.log import LOG
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CommitError, SettingsError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger, write_ledger
from sparkhaven.writers.quarantine.quarantined_rows import portions
from tests.support.disks.model_fs import FaultFs
from tests.support.streams.stream_kit import STREAM, TABLE, open_log
from tests.support.writers.quarantine_cases import marks, quarantine_at, rejected_at
from tests.support.writers.quarantine_tables import FIRST, version

FS = Fs()


class Watching(Fs):
    """Notes what is synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync(self, paths: Iterable[Path]) -> None:
        self.synced += [path.name for path in paths]

    def sync_dirs(self, paths: Iterable[Path]) -> None:
        self.synced += [f"{path.name}/" for path in paths]


def test_a_place_that_moved_is_refused_while_the_old_one_has_rows(tmp_path: Path) -> None:
    fs, layout = Fs(), Layout(tmp_path)
    state, quarantine = StreamState(STREAM), quarantine_at(fs, tmp_path)
    old = tmp_path / "old"
    layout.streams(TABLE).mkdir(parents=True)
    write_ledger(StreamPlace(fs, layout, TABLE, STREAM), Ledger(str(old), "", 3, 0, ((1, 3),)))
    (old / "_delta_log").mkdir(parents=True)
    (old / "_delta_log" / f"{0:020}.json").write_text("{}")
    with pytest.raises(SettingsError, match="in another place") as caught:
        settle(TablePlace(fs, layout, TABLE), state, quarantine, "x.toml")
    assert (caught.value.expected, caught.value.found) == (str(old), str(quarantine.directory))
    assert read_ledger(StreamPlace(fs, layout, TABLE, STREAM)) == Ledger(str(old), "", 3, 0, ((1, 3),))
    (old / "_delta_log" / f"{0:020}.json").unlink()  # a directory without a version is no table
    settle(TablePlace(fs, layout, TABLE), state, quarantine, "x.toml")
    assert read_ledger(StreamPlace(fs, layout, TABLE, STREAM)) == Ledger(str(old), "", 3)


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_disk_that_is_full_keeps_nothing_of_a_batch(tmp_path: Path, kind: str) -> None:
    open_log(Fs(), tmp_path).close()
    quarantine_at(Fs(), tmp_path).add([rejected_at(tmp_path / "r", 1)], 1)
    fs = FaultFs(kind, name="part-", code=errno.ENOSPC)
    full = quarantine_at(fs, tmp_path)
    files = sorted(full.directory.iterdir())
    with pytest.raises(OSError, match="No space left"):
        full.add([rejected_at(tmp_path / "r", 2)], 2)
    assert sorted(full.directory.iterdir()) == files and fs.failed == 1
    full.add([rejected_at(tmp_path / "r", 2)], 2)  # the retry
    assert sorted(marks(full)) == [(1, None), (2, None)]


def test_a_program_that_takes_every_version_first_is_an_error(tmp_path: Path) -> None:
    class Always(Fs):
        def link(self, source: Path, target: Path) -> bool:
            return False

    open_log(Fs(), tmp_path).close()
    quarantine = quarantine_at(Always(), tmp_path)
    with pytest.raises(CommitError, match="commits each version first"):
        quarantine.add([rejected_at(tmp_path / "r", 1)], 1)
    assert [path.name for path in quarantine.directory.iterdir()] == [LOG] and FS.names(
        quarantine.directory / LOG
    ) == []


def test_a_table_that_is_no_quarantine_is_not_written(tmp_path: Path) -> None:
    open_log(FS, tmp_path).close()
    quarantine = quarantine_at(FS, tmp_path)
    version(quarantine.directory, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, *FIRST[:1])
    version(
        quarantine.directory,
        1,
        {"metaData": {"id": "x", "schemaString": '{"fields":[{"name":"Epoch","type":"long"}]}'}},
    )
    with pytest.raises(UnsupportedVersionError) as caught:
        quarantine.add([rejected_at(tmp_path / "r", 1)], 1)
    assert (
        "no column Namespace" in str(caught.value.found) and "Epoch" not in str(caught.value.found).split("Requeued")[0]
    )
    assert len(FS.names(quarantine.directory / LOG)) == 2


def test_rows_are_read_in_portions_of_their_payloads() -> None:
    payloads = np.array([60, 30, 20, 200, 1, 1, 1, 1], np.int64)
    assert list(portions(payloads, 3, 100)) == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 8)]
    assert list(portions(payloads[:0])) == []
