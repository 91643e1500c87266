"""Bringing the files of a stream back to what its log says: plan first, reading only, then apply.

The plan refuses to go on (CorruptFileError, nothing changed) where a committed file is missing or shorter than its
committed length, or where a published location is ahead of the log. Otherwise it holds: tails to cut, column files
that no epoch knows, locations that were never committed or were rolled back, ``table.size`` files that are missing,
torn or old, and ``table.tbl`` files that are missing. Cost: one directory listing, one read and one stat a file for
each location of the stream, and one listing of each internal partition; no data is read. Applying it again after a
crash does the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from store.epochs.publish import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    named_owner,
    physical_size,
    publish_location,
    read_published,
    record_bytes,
)
from store.epochs.replay import StreamState
from store.epochs.resume import Resumed
from store.epochs.state import LocationState
from store.errors import CorruptFileError
from store.format.tablesize import TableSize
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName
from store.schema.versions import definitions

COLUMN_SUFFIXES = (".dat", ".sym", ".bytes", ".ovr")


@dataclass(frozen=True, slots=True)
class Cut:
    """A file to be cut to ``length``.

    ``shared`` if readers may hold the bytes that go, or another name of the file does (a backup made of hard links):
    then it gets a new inode.
    """

    path: Path
    length: int
    dropped: int
    shared: bool


@dataclass(slots=True)
class Settlement:
    """What has to be done so that the directories hold what the log says.

    ``ahead`` is the newest epoch of the stream that a ``table.size`` names, where that is beyond the log.
    """

    cuts: list[Cut] = field(default_factory=list)
    stray_files: list[Path] = field(default_factory=list)
    stray_locations: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    unpublished: list[LocationState] = field(default_factory=list)
    undefined: list[LocationState] = field(default_factory=list)
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What an open found and dropped. Rows of tails are unknown: they were never committed.

    ``lost_epochs`` were visible before a power cut in mode periodic or none; the source replays them.
    ``unpublished_locations`` have no ``table.size`` and may belong to another stream of the table: left as they are.
    """

    stream: str
    generation: int
    epoch: int
    cut_bytes: int = 0
    cut_files: tuple[Path, ...] = ()
    log_bytes: int = 0
    stray_files: tuple[Path, ...] = ()
    stray_locations: tuple[Path, ...] = ()
    unpublished_locations: tuple[Path, ...] = ()
    republished: int = 0
    lost_epochs: tuple[int, ...] = ()

    @staticmethod
    def of(state: StreamState, plan: Settlement, *, log_bytes: int, lost: tuple[int, ...]) -> RecoveryReport:
        """What a plan drops, with the torn end of the log and the epochs that went with a power cut."""
        return RecoveryReport(
            stream=state.stream,
            generation=state.generation,
            epoch=state.epoch,
            cut_bytes=sum(cut.dropped for cut in plan.cuts),
            cut_files=tuple(cut.path for cut in plan.cuts),
            log_bytes=log_bytes,
            stray_files=tuple(plan.stray_files),
            stray_locations=tuple(plan.stray_locations),
            unpublished_locations=tuple(plan.foreign),
            republished=len(plan.unpublished) + len(plan.undefined),
            lost_epochs=lost,
        )

    @property
    def clean(self) -> bool:
        """Whether nothing had to be dropped, and nothing of unknown origin was found."""
        dropped = self.cut_files, self.log_bytes, self.stray_files, self.stray_locations, self.lost_epochs
        return not any((*dropped, self.unpublished_locations))


def settle_locations(
    fs: Fs, layout: Layout, table: TableName, state: StreamState, keys: Iterable[LocationKey], *, ahead: bool
) -> Settlement:
    """Plans for locations of the state. ``ahead``: a record of a later epoch is no damage (the machine went down)."""
    plan = Settlement()
    for key in keys:
        location = state.locations[key]
        directory = layout.intraday_location(table, key)
        names = set(fs.names(directory))
        if location.truncated and not names:
            continue
        published = _published(fs, directory, names, state, ahead=ahead)
        if published is not None:
            plan.ahead = max(plan.ahead, _beyond(published[0], state))
        if published is None or published[1] != record_bytes(state.stream, location):
            plan.unpublished.append(location)
        if not location.truncated and TABLE_DEFINITION not in names and fs.stat(layout.schema(table)) is not None:
            plan.undefined.append(location)
        if not location.truncated:
            _settle_files(fs, directory, location, names, published[0] if published else None, plan)
    return plan


def _published(
    fs: Fs, directory: Path, names: set[str], state: StreamState, *, ahead: bool
) -> tuple[TableSize, bytes] | None:
    if TABLE_SIZE not in names:
        return None
    path = directory / TABLE_SIZE
    data = fs.read(path)
    found = read_published(data, path)
    if found is None:
        return None
    if _beyond(found, state) and not ahead:
        raise CorruptFileError(
            "a location was published at an epoch that the commit log does not have: acknowledged records are lost",
            where=path,
            expected=f"epoch {state.epoch} at most",
            found=f"epoch {found.epoch}",
            hint="restore the log from a copy; nothing was changed or deleted",
        )
    return found, data


def _beyond(found: TableSize, state: StreamState) -> int:
    """The epoch of a record of this stream that the log does not have, else 0."""
    epoch = found.epoch or 0
    return epoch if found.stream == state.stream and epoch > state.epoch else 0


def lost_beyond(state: StreamState, plan: Settlement) -> tuple[int, ...]:
    """Epochs that were published, but whose records went down with the machine."""
    return tuple(range(state.epoch + 1, plan.ahead + 1))


def _settle_files(
    fs: Fs, directory: Path, location: LocationState, names: set[str], published: TableSize | None, plan: Settlement
) -> None:
    for name, committed in location.files.items():
        path, expected = directory / name, physical_size(name, committed.size)
        found = fs.stat(path) if name in names else None
        if found is None or found.size < expected:
            raise CorruptFileError(
                "committed file is missing" if found is None else "file is shorter than its committed length",
                where=path,
                expected=f"{expected} bytes",
                found="nothing" if found is None else f"{found.size} bytes",
                hint="restore the file from a copy, or roll back to an epoch before it; nothing was changed or deleted",
            )
        if found.size > expected:
            mapped = published is not None and published.data_file_sizes.get(name, 0) > committed.size
            plan.cuts.append(Cut(path, expected, found.size - expected, mapped or found.links > 1))
    for name in sorted(names - location.files.keys()):
        if name.endswith(COLUMN_SUFFIXES) or is_temporary(name):
            plan.stray_files.append(directory / name)


def is_temporary(name: str) -> bool:
    """Whether a name is that of a temporary file of an atomic replace."""
    return name.startswith(".") and ".tmp-" in name


def find_strays(fs: Fs, layout: Layout, table: TableName, resumed: Resumed, plan: Settlement) -> None:
    """Adds directories that no epoch of the stream knows to the plan.

    Removed are those that the log itself shows as rolled back, those published by this stream at an epoch that was
    rolled back or went down with the machine, and those never published that name it as their stream. Other directories
    without ``table.size`` may be a copy in progress: they are reported.
    """
    state, ahead = resumed.state, resumed.went_down
    doomed = {layout.intraday_location(table, key) for key in resumed.graves.locations if key not in state.locations}
    plan.stray_locations.extend(sorted(path for path in doomed if fs.stat(path) is not None))
    for internal in fs.names(layout.intraday(table)):
        if internal.startswith("."):
            continue
        for value in fs.names(layout.intraday(table) / internal):
            key = LocationKey(internal, value)
            directory = layout.intraday_location(table, key)
            if key in state.locations or directory in doomed or fs.stat(directory) is None:
                continue
            path = directory / TABLE_SIZE
            if fs.stat(path) is None:
                if named_owner(fs, layout, table, directory) == state.stream:
                    plan.stray_locations.append(directory)
                elif fs.names(directory):
                    plan.foreign.append(directory)
            elif ahead or resumed.graves.dead:
                found = read_published(fs.read(path), path)
                if found is None or found.stream != state.stream:
                    continue
                epoch = found.epoch or 0
                if (ahead and epoch > state.epoch) or any(after < epoch <= last for after, last in resumed.graves.dead):
                    plan.stray_locations.append(directory)
                    plan.ahead = max(plan.ahead, _beyond(found, state))


def apply(fs: Fs, layout: Layout, table: TableName, stream: str, plan: Settlement) -> None:
    """Carries a plan out; again after a crash it does what is left."""
    changed: dict[Path, None] = {}
    for cut in plan.cuts:
        with fs.during("cut-file"):
            if cut.shared:
                fs.shorten(cut.path, cut.length)
                changed[cut.path.parent] = None
            else:
                fs.truncate(cut.path, cut.length)
    for path in plan.stray_files:
        with fs.during("remove-stray-file"):
            fs.unlink(path)
    fs.sync_dirs(changed)
    for path in plan.stray_locations:
        with fs.during("remove-stray-location"):
            _remove_location(fs, layout, table, stream, path)
    for location in plan.unpublished:
        publish_location(fs, layout, table, stream, location)
    if plan.undefined:
        known = definitions(fs, layout, table)
        for location in plan.undefined:
            path = layout.intraday_location(table, location.key) / TABLE_DEFINITION
            with fs.during("publish-definition"):
                fs.replace(path, known.get(location.schema_version, known[max(known)]))


def _remove_location(fs: Fs, layout: Layout, table: TableName, stream: str, directory: Path) -> None:
    try:
        lock = fs.lock(directory, make=False)
    except FileNotFoundError:
        return
    if lock is None:
        return  # a task of an older generation is still writing; the next open sees it again
    try:
        if _owner(fs, layout, table, directory) not in (stream, None):
            return  # a stream that was not there yet when the plan was made
        fs.remove_tree(directory)
    finally:
        lock.release()
    for parent in (directory.parent, directory.parent.parent):
        if not fs.rmdir(parent):
            break
        fs.sync_dirs([parent.parent])


def _owner(fs: Fs, layout: Layout, table: TableName, directory: Path) -> str | None:
    if fs.stat(directory / TABLE_SIZE) is None:
        return named_owner(fs, layout, table, directory)
    found = read_published(fs.read(directory / TABLE_SIZE), directory / TABLE_SIZE)
    return found.stream if found else None


def plan_recovery(fs: Fs, layout: Layout, table: TableName, found: Resumed) -> Settlement:
    """The plan for all locations of a stream and the strays around them; changes nothing."""
    plan = settle_locations(fs, layout, table, found.state, found.state.locations, ahead=found.went_down)
    find_strays(fs, layout, table, found, plan)
    return plan


def remove_temporaries(fs: Fs, layout: Layout, table: TableName, stream: str) -> None:
    """Removes what atomic replaces of log, checkpoint and head have left behind; the caller holds the stream."""
    own = layout.stream_log(table, stream), layout.stream_checkpoint(table, stream), layout.stream_head(table, stream)
    for path in own:
        for name in fs.names(path.parent):
            if name.startswith(f".{path.name}.tmp-"):
                fs.unlink(path.parent / name)
