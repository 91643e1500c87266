"""What the commit log has of single epochs."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from sparkhaven.jobs.monitor.logs.command_rows import EpochRecord, epoch_records
from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.framing import frame, scan
from tests.support.tables.small_tables import SmallTable


def test_epochs_have_their_counts_and_the_digest_of_their_frame(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    for number in (1, 2):
        reports = [small.append(f"source {n}", "2026-11-20", {"Size": [number, 5]}) for n in range(number)]
        small.commit(*reports)
    small.log().rollback(1, reason="test")
    small.log().close()
    place = small.place.of_stream("s")
    digests = [sha256(frame(part.payload)).hexdigest() for part in scan(place.stream_log.read_bytes()).frames]
    epochs = epoch_records(place, [1, 2, 3, 99])
    assert [epochs[number].digest for number in (1, 2, 3)] == digests[-3:]
    assert epochs == {
        1: EpochRecord(1, 1, digests[-3], 2, small.schema.version, "q"),
        2: EpochRecord(1, 2, digests[-2], 4, small.schema.version, "q"),
        3: EpochRecord(1, list_epochs(place)[-1].locations, digests[-1]),
    }
    assert set(epoch_records(place, [2])) == {2}
