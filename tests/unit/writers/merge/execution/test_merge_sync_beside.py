"""Several workers compare sources and read results back during the sync; if one of both fails, nothing is published."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.errors import CorruptFileError, phase_of
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.merge_run import MergePhase
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.write import phases
from sparkhaven.writers.merge.write.date_survey import verify_file
from sparkhaven.writers.merge.write.location_check import ColumnFound
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import history_bytes, make, merge

PATIENCE_S = 20.0


class SyncFs(QuickFs):
    """Does something in the place of the sync of staged files."""

    def __init__(self, instead: Any) -> None:
        self.instead, self.syncing = instead, False

    def step(self, name: str) -> None:
        if name.startswith("merge-sync"):
            self.syncing = name.endswith(":before")

    def sync(self, paths: Iterable[Path]) -> None:
        if self.syncing and any(path.suffix == ".dat" for path in paths):
            self.instead()


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IntradayRows:
    """A date whose tasks are spread over the workers."""
    monkeypatch.setattr(MergePlan, "ranges", lambda _: 2)
    return make(tmp_path, 100)[0]


def test_sources_are_compared_while_files_are_synced(db: IntradayRows, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, found = threading.Event(), []

    def verify(fs: Any, task: Any) -> None:
        verify_file(fs, task)
        found.append(task)
        compared.set()

    def wait() -> None:
        if not compared.wait(PATIENCE_S):
            raise AssertionError("no source was compared before the sync had ended")

    monkeypatch.setattr(phases, "verify_file", verify)
    merge(db.layout, fs=SyncFs(wait), workers=2, parallel_rows=1)
    assert len(found) == len({(task.index, task.name) for task in found}) > 10


def test_columns_are_read_back_while_files_are_synced(db: IntradayRows, monkeypatch: pytest.MonkeyPatch) -> None:
    read, found, read_part = threading.Event(), [], phases.read_part

    def noted(fs: Any, task: Any) -> Any:
        part = read_part(fs, task)
        found.append(part)
        read.set()
        return part

    def wait() -> None:
        if not read.wait(PATIENCE_S):
            raise AssertionError("no column was read before the sync had ended")

    monkeypatch.setattr(phases, "read_part", noted)
    merge(db.layout, fs=SyncFs(wait), workers=2, parallel_rows=1)
    columns = [(part.destination, part.column) for part in found if isinstance(part, ColumnFound)]
    assert len(columns) == len(set(columns)) > 10, "each is read once"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_source_is_not_merged(db: IntradayRows, workers: int) -> None:
    (path,) = db.layout.root.glob("Intraday/**/b/**/L.dat")
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptFileError, match="differs from what was committed"):
        merge(db.layout, workers=workers, parallel_rows=1)
    assert not history_bytes(db.layout)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_sync_publishes_nothing(db: IntradayRows, workers: int) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error") as reported:
        merge(db.layout, fs=SyncFs(fail), workers=workers, parallel_rows=1)
    assert phase_of(reported.value) == "sync" and not history_bytes(db.layout)


def test_the_record_of_staged_files_is_stored_before_they_are_synced(db: IntradayRows) -> None:
    stored: list[MergePhase] = []

    def look() -> None:
        record = newest(db.place, DAY, complete=False)
        assert record is not None
        stored.append(record.phase)

    merge(db.layout, fs=SyncFs(look), workers=2, parallel_rows=1)
    assert stored == [MergePhase.STAGE]
