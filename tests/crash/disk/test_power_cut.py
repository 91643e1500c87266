"""The machine goes down at a random moment; the disk keeps what was synced and any part of the rest.

Mode ``fsync`` loses nothing that was acknowledged; the other modes go back to an epoch, whole. With one of the syncs or
with the checksums switched off the same lives show losses: the test can fail.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from sparkhaven.store.epochs.recovery import resume
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import Opened
from tests.support.disks.cuts import LIVES, problem, problems
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.examples import share_of

pytestmark = pytest.mark.slow


def test_fsync_loses_nothing_acknowledged(tmp_path: Path) -> None:
    assert problems(tmp_path, "fsync", PowerCutFs, share_of(LIVES)) == ([], 0)


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_other_modes_go_back_to_a_whole_epoch_and_say_so(tmp_path: Path, durability: str) -> None:
    found, losses = problems(tmp_path, durability, PowerCutFs, share_of(LIVES))
    assert found == []
    assert losses > 0


@pytest.mark.parametrize("sabotage", ["file", "dir", "log"])
def test_without_one_of_the_syncs_acknowledged_rows_are_lost(tmp_path: Path, sabotage: str) -> None:
    def make(root: Path, **settings: object) -> PowerCutFs:
        return PowerCutFs(root, sabotage=sabotage, **settings)  # type: ignore[arg-type]

    assert problem(tmp_path, "fsync", make) is not None


class BlindFs(PowerCutFs):
    """Log checksums are off: every frame that is read carries the checksum that its payload happens to have."""

    def open(self, path: Path) -> Opened:
        return Mended(path) if path.suffix == ".log" else super().open(path)


class Mended(Opened):
    """A log in which every checksum is right."""

    def read(self, offset: int, length: int) -> bytes:
        data = bytearray(super().read(0, self.size))
        at = 16
        while at + 8 <= len(data):
            (size,) = struct.unpack_from("<I", data, at)
            struct.pack_into("<I", data, at + 4, zlib.crc32(data[at + 8 : at + 8 + size]))
            at += 8 + size
        return bytes(data[offset : offset + length])


def test_without_checksums_of_the_log_a_torn_record_is_taken_for_one(tmp_path: Path) -> None:
    assert problem(tmp_path, "periodic", BlindFs) is not None


def test_without_checksums_of_the_data_lost_writes_are_taken_for_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(fs: Fs, path: Path, trail: resume._Trail) -> int | None:
        found = fs.stat(path)
        start = 4096 if path.suffix == ".dat" else 0
        lengths = [epoch for epoch, mark in trail.marks if found is None or found.size - start < mark.size]
        return min(lengths, default=None)

    monkeypatch.setattr(resume, "_first_bad", believe)
    assert problem(tmp_path, "periodic", PowerCutFs) is not None
