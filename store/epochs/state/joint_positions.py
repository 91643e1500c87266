"""Positions of a feed that several tables are fed from: each has a log of its own, and a batch commits in each of them.

A process that is killed between two of these commits leaves tables at different positions, and so does the rollback of
one of them. The feed is then read again from the furthest back, and each log leaves out what it has (R2, R4, R5).

A table without an epoch has no position. It does not hold the others back: its first epoch says where it begins
(``first_ranges``, and the files of the others), and is committed before any table commits its first batch. So a table
that has an epoch, and does not know a partition, lacks all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange
from sparkhaven.store.epochs.state.offsets import OffsetEnd, Offsets, TopicPartition
from sparkhaven.store.epochs.state.position_kinds import PositionKind, source_of
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import PositionGapError

OF_FEEDS = (PositionKind.OFFSETS, PositionKind.VERSIONS)


def furthest_back(states: Sequence[StreamState]) -> StreamState:
    """A state with the positions that all tables have; its epoch is 0 only if no table has one.

    Of one table they are its own. The files are those that no table would take again.
    """
    begun = [state for state in states if state.epoch]
    if len(begun) < 2:
        return begun[0] if begun else states[0]
    first = begun[0]
    return StreamState(
        first.stream,
        epoch=first.epoch,
        files=_common_files([state.files for state in begun]),
        offsets=_smallest([state.offsets for state in begun]),
        rule=first.rule,
    )


def _smallest(all_offsets: Sequence[Offsets]) -> Offsets:
    """The smallest end of each partition that all of them know."""
    ends: dict[TopicPartition, OffsetEnd] = {}
    for partition in all_offsets[0]:
        if source_of(partition[0]).kind in OF_FEEDS and all(partition in offsets for offsets in all_offsets):
            ends[partition] = min((offsets[partition] for offsets in all_offsets), key=lambda end: end.stop)
    return Offsets(ends)


def _common_files(windows: Sequence[FileWindow]) -> FileWindow:
    horizon = min(window.horizon for window in windows)
    first, *others = windows
    if all(window == first for window in others):
        return first
    paths = {path: None for window in windows for path in window.paths()}
    remembered = (_known(windows, path) for path in paths)
    return FileWindow((file for file in remembered if not any(lacks(window, file) for window in windows)), horizon)


def _known(windows: Iterable[FileWindow], path: str) -> FileId:
    return next(file for window in windows if (file := window.known(path)) is not None)


def lacks(window: FileWindow, file: FileId) -> bool:
    """Whether a table would take a file that another has; one that differs is reported when it is planned."""
    try:
        return window.status(file) == "fresh"
    except PositionGapError:
        return False


def first_ranges(offsets: Offsets, proposed: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges without messages that say where a table begins: at these ends, else where proposed ranges begin."""
    starts = {
        partition: OffsetRange(*partition, end.stop, end.stop, end.topic_id)
        for partition, end in offsets.items()
        if source_of(partition[0]).kind in OF_FEEDS
    }
    for planned in sorted(proposed, key=lambda planned: planned.start):
        start = OffsetRange(planned.topic, planned.partition, planned.start, planned.start, planned.topic_id)
        starts.setdefault((planned.topic, planned.partition), start)
    return tuple(starts[partition] for partition in sorted(starts))
