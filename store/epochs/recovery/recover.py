"""Crash recovery of a stream's files: a read-only plan first, then apply.

Planning fails (CorruptFileError, nothing changed) if a committed file is missing or shorter than its committed length,
or if a published location is ahead of the log. Otherwise the plan lists tails to truncate, column files unknown to any
epoch, locations that were never committed or were rolled back, ``table.size`` files that are missing, torn or old, and
missing ``table.tbl`` files. Cost: one directory listing, one read and one stat per file for each location of the
stream, and one listing per internal partition; no data is read. Applying is idempotent after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.lock import take_lock_if_there
from sparkhaven.store.epochs.files.published_size import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    named_owner,
    publish_location,
    read_published,
)
from sparkhaven.store.epochs.files.removals import read_named
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Moved, Settlement, settle_locations
from sparkhaven.store.epochs.recovery.named_epochs import named_beyond
from sparkhaven.store.epochs.recovery.resume import Resumed, resume
from sparkhaven.store.epochs.recovery.set_aside import SetAside, list_set_aside
from sparkhaven.store.epochs.recovery.strays import find_strays
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.partition_rule import PartitionRule
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import check_stream
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.schema_versions import definitions


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a stream found and dropped. Rows of tails are unknown: they were never committed.

    ``lost_epochs`` were visible before a power failure in mode periodic or none; the source replays them.
    ``unpublished_locations`` have no ``table.size``, may belong to another stream of the table, and are left alone.
    ``moved`` may be copies of data that nothing else has. ``set_aside``: damaged locations that were removed from the
    stream before; no read includes their rows. ``rule``: by which rows were partitioned, where another one takes its
    place.
    """

    stream: str
    generation: int
    epoch: int
    cut_bytes: int = 0
    cut_files: tuple[Path, ...] = ()
    log_bytes: int = 0
    stray_files: tuple[Path, ...] = ()
    stray_locations: tuple[Path, ...] = ()
    moved: tuple[Moved, ...] = ()
    unpublished_locations: tuple[Path, ...] = ()
    republished: int = 0
    lost_epochs: tuple[int, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    rule: PartitionRule | None = None

    @staticmethod
    def of(
        state: StreamState, plan: Settlement, *, log_bytes: int, lost: tuple[int, ...], aside: Iterable[SetAside] = ()
    ) -> RecoveryReport:
        """What a plan drops, with the torn end of the log and the epochs lost by a power failure."""
        return RecoveryReport(
            stream=state.stream,
            generation=state.generation,
            epoch=state.epoch,
            cut_bytes=sum(cut.dropped for cut in plan.cuts),
            cut_files=tuple(cut.path for cut in plan.cuts),
            log_bytes=log_bytes,
            stray_files=tuple(plan.stray_files),
            stray_locations=tuple(plan.stray_locations),
            moved=tuple(plan.moved),
            unpublished_locations=tuple(plan.foreign),
            republished=len(plan.unpublished) + len(plan.undefined),
            lost_epochs=lost,
            set_aside=tuple(note for note in aside if note.stream == state.stream),
        )

    @property
    def clean(self) -> bool:
        dropped = self.cut_files, self.log_bytes, self.stray_files, self.stray_locations, self.lost_epochs
        return not any((*dropped, self.moved, self.unpublished_locations))

    def changes(self) -> list[str]:
        """What becomes of each path that the log does not account for, a line each."""
        lines = [f"remove {path}: location of an uncommitted batch" for path in self.stray_locations]
        lines += [f"remove {path}: file of an uncommitted batch" for path in self.stray_files]
        lines += [f"truncate {path}: rows of an uncommitted batch" for path in self.cut_files]
        lines += [f"rename {move.path} to {move.to.name}: a location {move.reason}" for move in self.moved]
        lines += [f"keep {path}: no epoch has it, and it names no stream" for path in self.unpublished_locations]
        if self.log_bytes:
            lines.append(f"drop {self.log_bytes:,} bytes of the log: a record that was never committed")
        return lines


def lost_beyond(state: StreamState, plan: Settlement) -> tuple[int, ...]:
    """Epochs that were published but whose records were lost by a power failure."""
    return tuple(range(state.epoch + 1, plan.ahead + 1))


def apply(place: StreamPlace, plan: Settlement) -> None:
    """Applies a plan; idempotent after a crash."""
    changed: dict[Path, None] = {}
    for cut in plan.cuts:
        with place.fs.during("cut-file"):
            if cut.shared:
                place.fs.shorten(cut.path, cut.length)
                changed[cut.path.parent] = None
            else:
                place.fs.truncate(cut.path, cut.length)
    for path in plan.stray_files:
        with place.fs.during("remove-stray-file"):
            place.fs.unlink(path)
    place.fs.sync_dirs(changed)
    for path in plan.stray_locations:
        with place.fs.during("remove-stray-location"):
            _take_away(place, path)
    for move in plan.moved:
        with place.fs.during("set-aside-stray-location"):
            _take_away(place, move.path, to=move.to)
    for location in plan.unpublished:
        publish_location(place, location)
    if plan.undefined:
        known = definitions(place)
        for location in plan.undefined:
            path = place.intraday_location(location.key) / TABLE_DEFINITION
            with place.fs.during("publish-definition"):
                place.fs.replace(path, known.get(location.schema_version, known[max(known)]))


def _take_away(place: StreamPlace, directory: Path, *, to: Path | None = None) -> None:
    """Removes a directory, or renames it, unless it has become another stream's."""
    try:
        lock = place.fs.lock(directory, make=False)
    except FileNotFoundError:
        return
    if lock is None:
        return  # a task of an older generation is still writing; the next open removes it
    with lock:
        if _owner(place, directory) not in (place.stream, None):
            return  # a stream that was created after the plan was made
        if to is not None:
            place.fs.rename(directory, to)
            place.fs.sync_dirs([to.parent])
            return
        place.fs.remove_tree(directory)
    for parent in (directory.parent, directory.parent.parent):
        if not place.fs.rmdir(parent):
            break
        place.fs.sync_dirs([parent.parent])


def _owner(place: TablePlace, directory: Path) -> str | None:
    if place.fs.stat(directory / TABLE_SIZE) is None:
        return named_owner(place, directory)
    record = read_published(place.fs.read(directory / TABLE_SIZE), directory / TABLE_SIZE)
    return record.stream if record else None


def plan_recovery(place: TablePlace, resumed: Resumed, *, leave_damaged: bool = False) -> Settlement:
    """The plan for all locations of a stream and the strays around them; changes nothing.

    CorruptFileError: also if any file of the tree names a later epoch or generation than the log has.
    """
    state = resumed.state
    witnesses = Witnesses(place, [state])
    named = read_named(place.of_stream(state.stream), resumed.known_removals)
    removed = witnesses.removed_by(state.stream, named)
    for part in (witnesses.beside_logs(), removed, witnesses.merges()):
        refuse(witness for witness in part if witness.stream == state.stream)
    plan = settle_locations(place, state, state.locations, ahead=resumed.went_down, leave_damaged=leave_damaged)
    find_strays(place, resumed, plan)
    if resumed.went_down:
        plan.ahead = max(plan.ahead, named_beyond(place, state, named))
    return plan


def remove_temporaries(place: StreamPlace) -> None:
    """Removes temporary files of interrupted replaces of a stream's files; the caller holds both of its locks."""
    own = place.stream_log, place.stream_checkpoint, place.stream_head, place.stream_removals
    begin = tuple(f".{path.name}.tmp-" for path in own)
    directory = place.streams
    for name in place.fs.names(directory):
        if name.startswith(begin):
            place.fs.unlink(directory / name)


def preview_recovery(place: StreamPlace, *, time_ms: int) -> RecoveryReport:
    """The report that recovery would give now; changes nothing. ``generation`` is the current one.

    TableNotFoundError: there is no such stream. LockLostError: a process runs it, and its tails are a running batch.
    CorruptFileError: recovery would fail.
    """
    with held_to_read(place):
        resumed = resume(place, boot_id=place.fs.boot_id(), time_ms=time_ms, settle=False)
        plan = plan_recovery(place, resumed)
    lost = resumed.lost + lost_beyond(resumed.state, plan)
    aside = list_set_aside(place)
    return RecoveryReport.of(resumed.state, plan, log_bytes=resumed.dropped_bytes, lost=lost, aside=aside)


def held_to_read(place: StreamPlace) -> AbstractContextManager[Lock | None]:
    """Locks an existing stream, if its lock file can be read."""
    check_stream(place.stream)
    load_stream(place)
    return take_lock_if_there(place.fs, place.stream_lock)
