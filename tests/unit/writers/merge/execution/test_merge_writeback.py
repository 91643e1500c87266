"""Large columns of a merge are on their way to the disk before the sync."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from tests.support.disks.model_fs import QuickFs
from tests.support.writers.merge_runs import make, merge


class WritebackFs(QuickFs):
    def __init__(self) -> None:
        self.begun: list[str] = []

    def step(self, name: str) -> None:
        if name.startswith("merge-sync"):
            self.begun.append(name)

    def start_writeback(self, path: Path) -> None:
        self.begun.append(path.name)
        super().start_writeback(path)


@pytest.mark.parametrize(("least", "files"), [(1, {"L.dat", "Venue.dat", "Note.dat", "Note.bytes"}), (1 << 30, set())])
def test_large_columns_are_on_their_way_to_the_disk_before_it_is_waited_for(
    tmp_path: Path, least: int, files: set[str]
) -> None:
    db, _ = make(tmp_path, 100)
    fs = WritebackFs()
    merge(db.layout, fs=fs, sizes=BlockSizes(writeback_bytes=least))
    begun = set(fs.begun[: fs.begun.index("merge-sync:before")])
    assert begun >= files if files else not begun
