"""A disk that is full, or fails, is reported with the file and with what was being done: of a batch and of a merge."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import (
    CommitError,
    EpochConflictError,
    RetryableStorageError,
    SparkhavenError,
    as_ours,
    in_phase,
)
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.batch.scratch import AttemptScratch
from sparkhaven.writers.batch.task import make_durable
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.write.phases import Failure
from tests.support.disks.model_fs import FaultFs
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "nth", "phase"),
    [
        ("write", "1.json.tmp", 1, "plan"),
        ("write", "Sym.dat", 1, "stage"),
        ("write", "table.tbl", 1, "stage"),
        ("sync", "Sym.dat", 1, "sync"),
        ("write", "table.size", 3, "check"),
        ("rename", "", 3, "publish"),
        ("write", "Every.tlmi", 1, "index"),
        ("write", "1.json.tmp", 3, "record"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_under_a_merge_names_its_phase(
    tmp_path: Path, kind: str, name: str, nth: int, phase: str, workers: int
) -> None:
    db, _ = make(tmp_path, 30)
    fs = FaultFs(kind, name=name, nth=nth, code=errno.ENOSPC)
    executor = LocalExecutor(workers)
    results: list[DateResult] = list(
        merge_dates(
            TablePlace(fs, db.layout, TABLE), [DAY], MergeOptions(), executor=executor, clock=lambda: 1_700_000_000.0
        )
    )
    (result,) = results
    assert (result.outcome, result.phase) == ("failed", phase)
    assert result.error is not None
    reported = as_ours(result.error)
    assert isinstance(reported, RetryableStorageError) and reported.where is not None and name in reported.where
    assert f"phase: {phase}" in str(reported) and "to do: free space" in str(reported)


def test_a_full_disk_after_a_merge_is_published_names_its_phase_and_fails_nothing(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    fs = FaultFs("write", name="1.json.tmp", nth=4, code=errno.ENOSPC)
    executor = LocalExecutor(1)
    (result,) = merge_dates(
        TablePlace(fs, db.layout, TABLE), [DAY], MergeOptions(), executor=executor, clock=lambda: 1_700_000_000.0
    )
    assert (result.outcome, result.phase, result.error) == ("merged", "record", None)
    assert result.clean_error is not None
    assert "phase: clean" in str(as_ours(result.clean_error)) and "to do: free space" in str(
        as_ours(result.clean_error)
    )


def test_a_full_disk_under_a_commit_names_what_was_written(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, fs=FaultFs("write", name="s.log", nth=3, code=errno.ENOSPC))
    small.log("s")
    with pytest.raises(EpochConflictError, match="phase: log-append"):
        small.add("a", "2026-11-20", {"Size": [1]})
    small.add("a", "2026-11-20", {"Size": [1]})
    with pytest.raises(CommitError, match="phase: log-copy") as reported:
        SmallTable(tmp_path / "other", fs=FaultFs("write", name="s.log", code=errno.ENOSPC)).log("s")
    assert "s.log" in str(reported.value.where)


def test_a_full_disk_under_rows_of_a_task_names_what_was_written(tmp_path: Path) -> None:
    fs, rows = FaultFs("write", code=errno.ENOSPC), pa.record_batch({"Size": pa.array([1], pa.int32())})
    with pytest.raises(CommitError, match="phase: spill"):
        AttemptScratch(fs, tmp_path, 0, 0).write(LocationKey("a", "d"), [(FileId("/f", 1, 1), rows)])
    (tmp_path / "x").write_bytes(b"x")
    fs = FaultFs("sync", name="x", code=errno.ENOSPC)
    with fs.sync_guard(tmp_path) as guard, pytest.raises(CommitError, match="phase: sync-files"):
        make_durable(fs, guard, [tmp_path / "x"], [])


def test_the_innermost_phase_is_reported_also_from_another_process() -> None:
    with pytest.raises(OSError, match="full") as reported, in_phase("publish"), in_phase("merge-stage"):
        raise OSError(errno.ENOSPC, "full", "/x")
    failure = pickle.loads(pickle.dumps(Failure(reported.value)))
    assert as_ours(failure.error).phase == "stage"
    with pytest.raises(SparkhavenError) as ours, in_phase("collect"):
        try:
            with in_phase("spill"):
                raise OSError(errno.EIO, "broken", "/x")
        except OSError as error:
            raise CommitError("cannot write") from error
    assert pickle.loads(pickle.dumps(ours.value)).phase == "spill"
    with pytest.raises(CommitError) as other, in_phase("collect"):
        raise CommitError("somebody else writes")  # no disk has failed
    assert "phase" not in str(other.value)
