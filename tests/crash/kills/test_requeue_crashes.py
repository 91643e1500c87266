"""Sending rows again, stopped at every step: whatever happens, each row is in the table once and marked once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.errors import ErrorBudgetExceeded
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.writers.quarantine.table import Quarantine
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.examples import some_of
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, open_log, put_file, record
from tests.support.writers.quarantine_cases import (
    DATE,
    bad,
    marks,
    mended,
    pending,
    quarantine_at,
    restart,
    send,
    take,
    truncate,
)

FS = Fs()
STEPS = ("requeue-try", "requeue-file", "quarantine-ledger", "append", "commit-record", "publish", "quarantine-mark")


def two_batches(fs: Fs, root: Path, quarantine: Quarantine) -> None:
    """Three rows in the table, three in quarantine."""
    one = put_file(root / "feed", "1", [record(0), bad(1), bad(2)], 1)
    two = put_file(root / "feed", "2", [record(3), bad(4), record(5)], 2)
    with restart(fs, root, quarantine) as log:
        for number, file in enumerate((one, two)):
            take(fs, root, log, [[file]], quarantine.add, number)


def all_rows(root: Path, quarantine: Quarantine) -> list[int]:
    """The numbers in the table after a start that sends again what is pending."""
    with restart(FS, root, quarantine) as log:
        send(FS, root, log, quarantine, mended(pending(quarantine)))
        assert not FS.names(Layout(root).requeues(TABLE, STREAM))
        return numbers(root, log.state)


def steps_of_a_requeue(root: Path) -> list[tuple[str, int]]:
    quarantine = quarantine_at(FS, root)
    two_batches(FS, root, quarantine)
    fs = CrashingFs()
    quarantine = quarantine_at(fs, root)
    log = restart(fs, root, quarantine)
    before = Counter(fs.steps)
    done = send(fs, root, log, quarantine, mended(pending(quarantine)))
    assert (done.sent, done.epochs, done.refused) == (3, [3], [])
    assert numbers(root, log.state) == [*range(6)]
    assert marks(quarantine) == [(1, 3), (1, 3), (2, 3)]
    log.close()
    after = Counter(fs.steps)
    return [(step, n) for step in after for n in range(before[step] + 1, after[step] + 1)]


@pytest.mark.slow
def test_stopped_at_every_step_no_row_is_lost_or_doubled(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    steps = steps_of_a_requeue(tmp_path / "plain")
    assert set(STEPS) <= {step.partition(":")[0] for step, _ in steps}
    for number, (step, occurrence) in enumerate(some_of(steps)):
        root = tmp_path / f"db{number}"
        root.mkdir()
        quarantine = quarantine_at(FS, root)
        two_batches(FS, root, quarantine)
        fs = CrashingFs(crash_at=step, occurrence=occurrence)
        crashing = quarantine_at(fs, root)
        log = None
        with pytest.raises(Crash):
            log = restart(fs, root, crashing)
            send(fs, root, log, crashing, mended(pending(crashing)))
        assert log is not None, (step, occurrence)
        log._lock.release()
        assert all_rows(root, quarantine) == [*range(6)], (step, occurrence)
        assert {mark for _, mark in marks(quarantine)} <= {3, 4}, (step, occurrence)
    print(f"{len(steps)} steps")


@pytest.mark.slow
def test_a_rollback_makes_rows_pending_again_also_when_they_were_not_marked(tmp_path: Path) -> None:
    for number, step in enumerate(("quarantine-mark:before", None)):
        root = tmp_path / str(number)
        root.mkdir()
        quarantine = quarantine_at(FS, root)
        two_batches(FS, root, quarantine)
        fs = CrashingFs(crash_at=step) if step else FS
        sending = quarantine_at(fs, root)
        log = restart(fs, root, sending)
        if step:
            with pytest.raises(Crash):
                send(fs, root, log, sending, mended(pending(sending)))
        else:
            send(fs, root, log, sending, mended(pending(sending)))
        log._lock.release()
        with open_log(FS, root) as log:  # as the command does it, without a look at the quarantine
            assert numbers(root, log.state) == [*range(6)]
            log.rollback(2)
        with restart(FS, root, quarantine) as log:
            assert numbers(root, log.state) == [0, 3, 5]
            assert marks(quarantine) == [(1, None), (1, None), (2, None)]
        assert all_rows(root, quarantine) == [*range(6)]
        assert {mark for _, mark in marks(quarantine)} == {5}


def test_rows_that_are_still_bad_stay_and_the_others_go(tmp_path: Path) -> None:
    quarantine = quarantine_at(FS, tmp_path)
    two_batches(FS, tmp_path, quarantine)
    with restart(FS, tmp_path, quarantine) as log:
        done = send(FS, tmp_path, log, quarantine, pending(quarantine))
        assert (done.sent, done.epochs, len(done.refused), log.state.epoch) == (0, [], 3, 2)
        half = mended(pending(quarantine).slice(0, 1))
        rest = pending(quarantine).slice(1)
        done = send(FS, tmp_path, log, quarantine, pa.concat_tables([half, rest]))
        assert (done.sent, done.epochs, len(done.refused)) == (1, [3], 2)
        assert marks(quarantine) == [(1, 3), (1, None), (2, None)]
        assert [str(row).partition(", ")[0].rpartition("/")[2] for row in done.refused] == ["1 line 3", "2 line 2"]
        assert numbers(tmp_path, log.state) == [0, 1, 3, 5]


def test_rows_for_a_truncated_date_stay(tmp_path: Path) -> None:
    quarantine = quarantine_at(FS, tmp_path)
    two_batches(FS, tmp_path, quarantine)
    with restart(FS, tmp_path, quarantine) as log:
        key = LocationKey("a", DATE)
        truncate(tmp_path, key)
        log.state.locations[key] = replace(log.state.locations[key], truncated=True)
        done = send(FS, tmp_path, log, quarantine, mended(pending(quarantine)))
        assert (done.sent, {row.code for row in done.refused}) == (0, {"late"})
        assert log.state.epoch == 2


def test_a_repeat_of_a_committed_file_is_a_no_op(tmp_path: Path) -> None:
    quarantine = quarantine_at(FS, tmp_path)
    two_batches(FS, tmp_path, quarantine)
    with restart(FS, tmp_path, quarantine) as log:
        rows = mended(pending(quarantine))
        send(FS, tmp_path, log, quarantine, rows)
        assert log.state.offsets.requeued == 3
        assert send(FS, tmp_path, log, quarantine, mended(pending(quarantine))).epochs == []
    feed = put_file(tmp_path / "feed", "3", [bad(6), record(7)], 3)
    with restart(FS, tmp_path, quarantine) as log:
        take(FS, tmp_path, log, [[feed]], quarantine.add, 5)
        send(FS, tmp_path, log, quarantine, mended(pending(quarantine)))
        assert log.state.offsets.requeued == 4
        assert numbers(tmp_path, log.state) == [*range(8)]
        with pytest.raises(ErrorBudgetExceeded):
            take(FS, tmp_path, log, [[put_file(tmp_path / "feed", "4", [bad(9)], 4)]], None, 6)
