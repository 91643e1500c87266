"""Finds which unsynced epochs survived a power failure or the end of the process (modes ``periodic`` and ``none``).

Epochs up to the durable one are on disk. Of later ones any write may be lost, in any order; what holds is the longest
prefix of epochs whose files are long enough and whose running CRC-32 matches at every epoch. Only bytes written after
the durable epoch are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkhaven.store.epochs.files.published_size import DATA_OFFSET, TABLE_DEFINITION, data_start, physical_size
from sparkhaven.store.epochs.files.unsynced import Unsynced
from sparkhaven.store.epochs.state.log_records import CommitRecord
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.errors import FormatError
from sparkhaven.store.format.column.prefix import decode_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState

CHUNK = 8 << 20


@dataclass(slots=True)
class _Trail:
    """The lengths and checksums of one file at successive epochs, from its durable one (None: new) on."""

    base: FileState | None
    marks: list[tuple[int, FileState]] = field(default_factory=list)


def first_lost(
    place: TablePlace, durable: Mapping[LocationKey, LocationState], commits: Iterable[CommitRecord]
) -> int | None:
    """The oldest of ``commits`` (in order, after the ``durable`` locations) that was lost; None if all survived."""
    trails: dict[Path, _Trail] = {}
    lost: list[int] = []
    for commit in commits:
        for report in commit.batch.reports:
            directory = place.intraday_location(report.key)
            base = durable.get(report.key)
            if report.base_epoch == 0:
                definition = place.fs.stat(directory / TABLE_DEFINITION)
                if definition is None or not definition.size:
                    lost.append(commit.epoch)
            for name, state in report.files.items():
                before = base.files.get(name) if base and report.base_epoch else None
                trail = trails.setdefault(directory / name, _Trail(before))
                trail.marks.append((commit.epoch, state))
    lost.extend(epoch for path, trail in trails.items() if (epoch := _first_bad(place.fs, path, trail)) is not None)
    return min(lost, default=None)


def first_unwritten(
    place: TablePlace, durable: Mapping[LocationKey, LocationState], commits: Sequence[CommitRecord]
) -> int | None:
    """The same if the machine did not restart: syncs the epochs and reads them back from disk.

    The error of an earlier sync is not reported again: the kernel has dropped those pages, and a second sync succeeds.
    So a successful sync proves nothing about epochs of an ended process. Missing or short files have another cause;
    the plan of recovery reports them as damage. OSError: a sync failed.
    """
    unsynced = Unsynced(place)
    unsynced.note(report for commit in commits for report in commit.batch.reports)
    paths = unsynced.files(place.fs)
    lengths: dict[Path, int] = {}
    for commit in commits:
        for report in commit.batch.reports:
            directory = place.intraday_location(report.key)
            lengths |= {directory / name: physical_size(name, state.size) for name, state in report.files.items()}
    for path, length in lengths.items():
        stat = place.fs.stat(path)
        if stat is None or stat.size < length:
            return None
    unsynced.sync(place.fs)
    place.fs.drop_cached(paths)
    return first_lost(place, durable, commits)


def _first_bad(fs: Fs, path: Path, trail: _Trail) -> int | None:
    stat = fs.stat(path)
    start = data_start(path.name)
    if stat is None or (start and trail.base is None and not _has_prefix(fs, path, stat.size)):
        return trail.marks[0][0]
    position, crc = (trail.base.size, trail.base.crc) if trail.base else (0, 0)
    for epoch, mark in trail.marks:
        if not position <= mark.size <= stat.size - start:
            return epoch
        while position < mark.size:
            length = min(CHUNK, mark.size - position)
            crc = zlib.crc32(fs.read_range(path, start + position, length), crc)
            position += length
        if crc != mark.crc:
            return epoch
    return None


def _has_prefix(fs: Fs, path: Path, size: int) -> bool:
    if size < DATA_OFFSET:
        return False
    try:
        decode_prefix(fs.read_range(path, 0, DATA_OFFSET), path)
    except FormatError:
        return False
    return True
