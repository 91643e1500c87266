"""Crash recovery of a stream's files: a read-only plan first, then apply.

Planning fails (CorruptFileError, nothing changed) if a committed file is missing or shorter than its committed length,
or if a published location is ahead of the log. Otherwise the plan lists tails to truncate, column files unknown to any
epoch, locations that were never committed or were rolled back, ``table.size`` files that are missing, torn or old, and
missing ``table.tbl`` files. Cost: one directory listing, one read and one stat per file for each location of the
stream, and one listing per internal partition; no data is read. Applying is idempotent after a crash.

*Strays* are directories around a stream's locations that no epoch of its log has. A directory with a ``table.size``
says which epoch published it, and the log knows whether that was rolled back or lost. One without may be left over from
a batch that was never committed, and is removed. It may as well be a location that is being copied back from a backup.
So it is removed only where all of this holds, and otherwise set aside by a rename:

* its owner mark names this stream and a generation that can have left it, that of the newest epoch or a later one;
* no epoch, removal or merge record names its internal partition and date: then a committed location was there once;
* it has no more bytes than the largest location of the stream (or ``LEAST_BYTES``): one batch leaves no more.
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
    other_locations,
    physical_size,
    publish_location,
    read_mark,
    read_published,
)
from sparkhaven.store.epochs.files.removals import read_named, read_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Moved, Settlement, settle_locations
from sparkhaven.store.epochs.recovery.resume import Resumed, resume
from sparkhaven.store.epochs.recovery.set_aside import SET_ASIDE, SetAside, list_set_aside
from sparkhaven.store.epochs.recovery.survey import named_beyond
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.replay import StreamState, restored
from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.errors import FormatError, counted
from sparkhaven.store.format.table.table_size import published
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import LocationKey, check_stream
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import definitions

LEAST_BYTES = 1 << 20


def find_strays(place: TablePlace, resumed: Resumed, plan: Settlement) -> None:
    """Adds directories unknown to any epoch of the stream to the plan.

    To be removed are those published by this stream that the log shows as rolled back or lost, and those that an
    uncommitted batch left. Other directories without ``table.size`` are set aside if they have this stream's owner
    mark, or are in the place of a location that was rolled back. The rest is only reported.
    """
    state, ahead = resumed.state, resumed.went_down
    witnesses = Witnesses(place, [state])
    origins = _Origins(place, resumed)
    for key in other_locations(place, state.locations):
        directory = place.intraday_location(key)
        if place.fs.stat(directory) is None:
            continue
        path = directory / TABLE_SIZE
        if place.fs.stat(path) is None:
            owner = named_owner(place, directory)
            if owner == state.stream or (owner is None and key in resumed.undone.locations):
                reason = origins.doubt(key, directory)
                if reason is None:
                    plan.stray_locations.append(directory)
                else:
                    plan.moved.append(Moved(directory, _free_name(place.fs, directory, state.generation), reason))
            elif place.fs.names(directory):
                plan.foreign.append(directory)
            continue
        if key in resumed.undone.locations:
            plan.stray_locations.append(directory)
            continue
        try:
            stream, epoch = published(place.fs.read(path), path)
        except FormatError:
            plan.foreign.append(directory)
            continue
        if stream != state.stream:
            continue
        if (ahead and epoch > state.epoch) or any(after < epoch <= last for after, last in resumed.undone.dead):
            plan.stray_locations.append(directory)
            plan.ahead = max(plan.ahead, epoch if epoch > state.epoch else 0)
        elif epoch <= state.epoch and restored(state.rolled_back, epoch) is not None:
            plan.foreign.append(directory)
        else:
            refuse(witnesses.location(key))


class _Origins:
    """Where a directory without ``table.size`` may come from. What this needs is read once, if there is one at all."""

    def __init__(self, place: TablePlace, resumed: Resumed) -> None:
        self._place, self._resumed = place, resumed
        self._removed: set[LocationKey] | None = None
        self._largest: int | None = None

    def doubt(self, key: LocationKey, directory: Path) -> str | None:
        """Why a directory may be more than what an uncommitted batch left; None: it is that."""
        mark = read_mark(self._place.fs, directory)
        if mark is None or mark.generation is None:
            return "whose owner mark names no generation"
        if mark.generation < self._resumed.working:
            return f"which generation {mark.generation} made and later ones have not"
        if self._was_committed(key):
            return "where a committed location was before"
        stats = (self._place.fs.stat(directory / name) for name in self._place.fs.names(directory))
        size = sum(stat.size for stat in stats if stat)
        if size > self._bound():
            return f"which has more bytes ({size:,}) than one batch leaves"
        return None

    def _was_committed(self, key: LocationKey) -> bool:
        stream = self._resumed.state.stream
        if self._removed is None:
            entries = read_removals(self._place.of_stream(stream)).entries
            self._removed = {removal.key for _, removal in entries}
        if key in self._removed:
            return True
        record = newest(self._place, key.value)
        inputs = record.inputs if record is not None else ()
        return any((taken.stream, taken.internal) == (stream, key.internal) for taken in inputs)

    def _bound(self) -> int:
        if self._largest is None:
            locations = self._resumed.state.locations.values()
            sizes = (sum(physical_size(name, f.size) for name, f in location.files.items()) for location in locations)
            self._largest = max([LEAST_BYTES, *sizes])
        return self._largest


def _free_name(fs: Fs, directory: Path, generation: int) -> Path:
    taken = fs.names(directory.parent)
    names = (
        f"{SET_ASIDE}{directory.name}-g{generation}{f'-{again}' if again else ''}" for again in range(len(taken) + 1)
    )
    return directory.with_name(next(name for name in names if name not in taken))


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
            lines.append(f"drop {counted(self.log_bytes, 'byte')} of the log: a record that was never committed")
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
