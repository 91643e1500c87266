"""Crash recovery of a stream's files: a read-only plan first, then apply.

Planning fails (CorruptFileError, nothing changed) if a committed file is missing or shorter than its committed length,
or if a published location is ahead of the log. Otherwise the plan lists tails to truncate, column files unknown to any
epoch, locations that were never committed or were rolled back, ``table.size`` files that are missing, torn or old, and
missing ``table.tbl`` files. Cost: one directory listing, one read and one stat per file for each location of the
stream, and one listing per internal partition; no data is read. Applying is idempotent after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from store.epochs.files.publish import (
    TABLE_DEFINITION,
    TABLE_SIZE,
    named_owner,
    publish_location,
    read_published,
    walk_locations,
)
from store.epochs.recovery.aside import SetAside
from store.epochs.recovery.named import named_beyond
from store.epochs.recovery.resume import Resumed
from store.epochs.recovery.settlement import Settlement, settle_locations
from store.epochs.recovery.witnesses import Witnesses, refuse
from store.epochs.state.replay import StreamState
from store.epochs.state.rollbacks import restored
from store.errors import FormatError
from store.format.table.tablesize import published
from store.io.fs import Fs
from store.layout import Layout, TableName
from store.schema.deployed.versions import definitions
from store.types.frozen import frozen


@frozen
class RecoveryReport:
    """What opening a stream found and dropped. Rows of tails are unknown: they were never committed.

    ``lost_epochs`` were visible before a power failure in mode periodic or none; the source replays them.
    ``unpublished_locations`` have no ``table.size``, may belong to another stream of the table, and are left alone.
    ``set_aside``: damaged locations that were removed from the stream before; no read includes their rows.
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
    set_aside: tuple[SetAside, ...] = ()

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
            unpublished_locations=tuple(plan.foreign),
            republished=len(plan.unpublished) + len(plan.undefined),
            lost_epochs=lost,
            set_aside=tuple(each for each in aside if each.stream == state.stream),
        )

    @property
    def clean(self) -> bool:
        """Whether nothing was dropped, and nothing of unknown origin was found."""
        dropped = self.cut_files, self.log_bytes, self.stray_files, self.stray_locations, self.lost_epochs
        return not any((*dropped, self.unpublished_locations))


def lost_beyond(state: StreamState, plan: Settlement) -> tuple[int, ...]:
    """Epochs that were published but whose records were lost by a power failure."""
    return tuple(range(state.epoch + 1, plan.ahead + 1))


def find_strays(fs: Fs, layout: Layout, table: TableName, resumed: Resumed, plan: Settlement) -> None:
    """Adds directories unknown to any epoch of the stream to the plan.

    To be removed are those that the log shows as rolled back, those published by this stream at an epoch that was
    rolled back or lost, and unpublished ones with this stream's owner mark. Other directories without ``table.size``
    may be a copy in progress and are only reported.
    """
    state, ahead = resumed.state, resumed.went_down
    witnesses = Witnesses(fs, layout, table, [state])
    doomed = {layout.intraday_location(table, key) for key in resumed.undone.locations if key not in state.locations}
    plan.stray_locations.extend(sorted(path for path in doomed if fs.stat(path) is not None))
    for key in walk_locations(fs, layout, table):
        directory = layout.intraday_location(table, key)
        if key in state.locations or directory in doomed or fs.stat(directory) is None:
            continue
        path = directory / TABLE_SIZE
        if fs.stat(path) is None:
            if named_owner(fs, layout, table, directory) == state.stream:
                plan.stray_locations.append(directory)
            elif fs.names(directory):
                plan.foreign.append(directory)
            continue
        try:
            stream, epoch = published(fs.read(path), path)
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


def apply(fs: Fs, layout: Layout, table: TableName, stream: str, plan: Settlement) -> None:
    """Applies a plan; idempotent after a crash."""
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
        return  # a task of an older generation is still writing; the next open removes it
    with lock:
        if _owner(fs, layout, table, directory) not in (stream, None):
            return  # a stream that was created after the plan was made
        fs.remove_tree(directory)
    for parent in (directory.parent, directory.parent.parent):
        if not fs.rmdir(parent):
            break
        fs.sync_dirs([parent.parent])


def _owner(fs: Fs, layout: Layout, table: TableName, directory: Path) -> str | None:
    if fs.stat(directory / TABLE_SIZE) is None:
        return named_owner(fs, layout, table, directory)
    found = read_published(fs.read(directory / TABLE_SIZE), directory / TABLE_SIZE)
    return found.stream if found else None


def plan_recovery(
    fs: Fs, layout: Layout, table: TableName, found: Resumed, *, leave_damaged: bool = False
) -> Settlement:
    """The plan for all locations of a stream and the strays around them; changes nothing.

    CorruptFileError: also if any file of the tree names a later epoch or generation than the log has.
    """
    witnesses = Witnesses(fs, layout, table, [found.state])
    for part in (witnesses.beside_logs(), witnesses.removals(), witnesses.merges()):
        refuse(witness for witness in part if witness.stream == found.state.stream)
    plan = settle_locations(
        fs,
        layout,
        table,
        found.state,
        found.state.locations,
        ahead=found.went_down,
        leave_damaged=leave_damaged,
    )
    find_strays(fs, layout, table, found, plan)
    if found.went_down:
        plan.ahead = max(plan.ahead, named_beyond(fs, layout, table, found.state))
    return plan


def remove_temporaries(fs: Fs, layout: Layout, table: TableName, stream: str) -> None:
    """Removes temporary files of interrupted replaces of a stream's files; the caller holds both of its locks."""
    own = layout.stream_log, layout.stream_checkpoint, layout.stream_head, layout.stream_removals
    begin = tuple(f".{of(table, stream).name}.tmp-" for of in own)
    directory = layout.streams(table)
    for name in fs.names(directory):
        if name.startswith(begin):
            fs.unlink(directory / name)
