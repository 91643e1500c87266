"""What is due between batches, on a real log."""

from __future__ import annotations

import errno
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.writers.batch.commit import Maintenance
from tests.support.disks.model_fs import FaultFs
from tests.support.streams.stream_kit import ingest, open_log, place_in, put_file, record


def test_a_compaction_without_room_is_reported_and_the_stream_goes_on(tmp_path: Path) -> None:
    reported: list[SparkhavenError] = []
    fs = FaultFs("write", name=".checkpoint", code=errno.ENOSPC)
    with open_log(fs, tmp_path, keep_epochs=1, compact_bytes=1) as log:
        maintenance = Maintenance(log, CommitPolicy(), reported.append)
        floors = []
        for number in range(6):
            ingest(fs, tmp_path, log, [[put_file(tmp_path / "feed", str(number), [record(number)], number)]], number)
            maintenance.after_batch()
            floors.append(log.state.floor)
        (error,) = reported
        assert "cannot be compacted" in str(error) and fs.failed == 1
        assert floors[-1] > floors[0] == 0  # tried again, with room
    assert load_stream(place_in(tmp_path, fs)).epoch == 6


def test_mode_periodic_syncs_when_it_is_time_and_others_never(tmp_path: Path) -> None:
    for mode, durable in (("periodic", [0, 0, 3]), ("none", [0, 0, 0])):
        now = iter([0.0, 4.0, 9.0, 11.0, 11.0])
        fs, root = FaultFs("sync", nth=10**9), tmp_path / mode
        root.mkdir()
        with open_log(fs, root, durability=mode) as log:
            maintenance = Maintenance(
                log, CommitPolicy(mode, 10.0), lambda error: None, clock=lambda now=now: next(now)
            )
            found = []
            for number in range(3):
                ingest(fs, root, log, [[put_file(tmp_path / "feed", str(number), [record(number)], number)]], number)
                maintenance.sync_if_due()
                found.append(log.state.durable)
            assert found == durable, mode
