"""A merge reads the records of a date once, under the table's lock, and hands them on."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.io.fs import Lock
from sparkhaven.writers.merge.date_result import MergeOutcome
from tests.support.disks.model_fs import QuickFs
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import make, merge


class CountedFs(QuickFs):
    """Notes which merge records of the date are read under the lock of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        if path.name == ".lock":
            self.records.clear()
        return super().lock(path, wait=wait, make=make)

    def read(self, path: Path) -> bytes:
        if path.parent.name == DAY and path.suffix == ".json":
            self.records.append(path.name)
        return super().read(path)


def test_the_records_of_a_date_are_read_once(tmp_path: Path) -> None:
    db, _ = make(tmp_path, number=30)
    merge(db.layout)
    fs, witness = CountedFs(), ["1.json"]  # of the commit log, asked before the date is looked at
    assert merge(db.layout, fs=fs)[0].outcome is MergeOutcome.NOTHING
    assert fs.records == [*witness, "1.json"]
    assert merge(db.layout, fs=fs, rewrite=True)[0].generation == 2
    assert fs.records == [*witness, "1.json", "1.json", "2.json"], "to plan and publish, then to clean up afterwards"
