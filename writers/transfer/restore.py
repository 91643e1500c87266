"""Tables of a snapshot are put into a database root: copied beside, synced, verified whole, then moved into place.

Each is staged in ``.restore/<table>`` of the root, a small root of its own. Its file ``ready`` names the snapshot. It
is written once all is synced and verified. From then on a repeated restore only goes on moving.

A staged table is moved by renames, its schema last: until then readers find no such table. Of a user table the
definition is the last. Each step can be repeated. What is still staged has not been moved, and is moved then. A table
that is replaced is removed first, its schema before all else. The file ``cleared`` says that this is done.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.epochs.files.stream_notes import failed_streams, noted_streams
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import CorruptFileError, RetryableStorageError, SettingsError, TableExistsError, counted
from sparkhaven.store.format.manifest import SNAPSHOT
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import refuse_doomed
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.partitions import add_partition, writable_names
from sparkhaven.writers.transfer.content import CopiedTable, require_copy, same_content
from sparkhaven.writers.transfer.copying import CopyProgress, FileCopies, clear, locked_directory, other_content
from sparkhaven.writers.transfer.snapshots import Progress, SnapshotManifest, load_snapshot
from sparkhaven.writers.transfer.table_files import move_ledgers, same_quarantine
from sparkhaven.writers.users.location_writer import lock_user_table

READY, CLEARING, CLEARED = "ready", "clearing", "cleared"
PARTS = (
    "merges",
    "metadata_index",
    "extended",
    "intraday",
    "schema_history",
    "schema",
    "splayed",
    "user_locations",
    "user_definition",
)


class RestoreOutcome(StrEnum):
    RESTORED = "restored"
    PRESENT = "present"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class RestoredTable:
    """``present``: the table was there already, with the rows of the snapshot. ``planned``: of a dry run."""

    name: TableName
    table: CopiedTable
    outcome: RestoreOutcome


def restore(
    fs: Fs,
    snapshot: Path,
    layout: Layout,
    tables: list[TableName] | None = None,
    *,
    replacing: Collection[TableName] = (),
    dry_run: bool = False,
    progress: Progress = lambda _: None,
) -> list[RestoredTable]:
    """Restores tables (None: all) of a snapshot. Each appears whole, or not at all; ``replacing`` names those
    that may take the place of a table.

    TableExistsError: a table is there already, or files of one that was dropped. CorruptFileError: a file of the
    snapshot is missing or damaged; nothing was put in place. LockLostError: a process writes a table that is to be
    replaced.
    """
    manifest = load_snapshot(fs, snapshot)
    names = manifest.chosen(tables, snapshot / SNAPSHOT.name)
    _require_apart(fs, snapshot, layout)
    if strangers := set(replacing) - set(names):
        raise SettingsError(
            "--replace names a table that is not restored",
            expected=", ".join(map(str, names)),
            found=", ".join(sorted(map(str, strangers))),
            hint="name tables of this restore",
        )
    for name in names:
        refuse_doomed(TablePlace(fs, layout, name))
    # notes of a dropped table are no table: the restored streams have numbers of their own
    replacing = {*replacing, *(name for name in names if _has_notes_alone(TablePlace(fs, layout, name)))}
    present = {
        name
        for name in names
        if _is_there(TablePlace(fs, layout, name), snapshot, manifest.tables[str(name)], replacing=name in replacing)
    }
    outcomes = {name: RestoreOutcome.PRESENT if name in present else RestoreOutcome.PLANNED for name in names}
    staged = layout.restores()
    if not dry_run and (len(present) < len(names) or fs.stat(staged) is not None):
        for directory in fs.mkdirs(staged):
            fs.sync_dirs([directory.parent])
        with locked_directory(fs, staged, "another restore into this root"):
            for name in names:
                placement = Placement(TablePlace(fs, layout, name))
                if name in present:
                    placement.begin()  # nothing but what a restore has left that was killed at its end
                    fs.rmdir(placement.stage)
                else:
                    _restore(fs, snapshot, placement, manifest, name in replacing, progress)
                    outcomes[name] = RestoreOutcome.RESTORED
            fs.rmdir(staged)
    return [RestoredTable(name, manifest.tables[str(name)], outcomes[name]) for name in names]


def _require_apart(fs: Fs, snapshot: Path, layout: Layout) -> None:
    source, root = fs.resolve(snapshot.absolute()), fs.resolve(layout.root)
    if source == root or source in root.parents:
        raise SettingsError(
            "the root is the snapshot, or in it", where=root, expected="another directory", hint="name another --root"
        )


def _is_there(place: TablePlace, snapshot: Path, table: CopiedTable, *, replacing: bool) -> bool:
    """Whether the table has the rows of the snapshot already. TableExistsError: it has others."""
    fs, name = place.fs, place.table
    if Placement(place).begun:
        return False
    held = [path for path in (place.schema, place.schema_history, place.user_definition) if fs.stat(path)]
    held += [path for path in (place.intraday, place.merges) if fs.names(path)]
    if held == [place.intraday] and _has_notes_alone(place):
        return False
    if not held:
        return False
    if same_content(place, table):
        return True
    if replacing:
        return False
    raise TableExistsError(
        f"table {name} is there already. Nothing was changed",
        where=held[0],
        expected=f"no table {name}",
        found="other rows than those of the snapshot",
        hint=f"`sparkhaven restore {snapshot} {name} --replace {name}` removes it for that of the snapshot",
    )


def _has_notes_alone(place: TablePlace) -> bool:
    """Whether nothing but notes of streams that were removed, or never began, is left of a table."""
    fs = place.fs
    others = any(fs.stat(path) for path in (place.schema, place.schema_history, place.user_definition))
    if others or fs.names(place.merges) or fs.names(place.intraday) != [place.streams.name]:
        return False
    return len(noted_streams(place)) + len(failed_streams(place)) == len(fs.names(place.streams))


def _restore(
    fs: Fs, snapshot: Path, placement: Placement, manifest: SnapshotManifest, replacing: bool, progress: Progress
) -> None:
    name = placement.place.table
    table, mark = manifest.tables[str(name)], f"{manifest.whole.id}\n".encode()
    if not placement.is_ready(mark, replacing=replacing):
        placement.begin()
        shared = manifest.quarantines_of(table)
        _stage(fs, snapshot, placement, replace(table, files={**table.files, **shared}), progress)
        placement.ready(mark, replacing=replacing)
    placement.put()
    require_copy(placement.place, table, lambda _: False)
    progress(f"{name}: restored, {counted(table.rows, 'row')}")


def _stage(fs: Fs, snapshot: Path, placement: Placement, table: CopiedTable, progress: Progress) -> None:
    """Copies and verifies. CorruptFileError: a file of the snapshot is damaged."""
    stage, name = placement.stage, placement.place.table
    copies = FileCopies(fs, stage, partial(CopyProgress(progress).count, str(name)))
    with fs.sync_guard(stage) as guard:
        with fs.during("restore-copy"):
            for path, state in sorted(table.files.items()):
                stat = fs.stat(snapshot / path)
                if stat is None or stat.size < state.size:
                    there = f"{stat.size} bytes" if stat else "no file"
                    raise other_content(snapshot / path, f"{state.size} bytes", there)
                copies.commit(snapshot / path, stage / path, state)
            for partition in table.partitions:
                add_partition(fs, Layout(stage), name.namespace, partition)
            streams = [*list_streams(placement.staged), *noted_streams(placement.staged)]
            move_ledgers((placement.staged.of_stream(stream) for stream in streams), placement.place.layout)
        with fs.during("restore-sync"):
            copies.sync(guard)
    progress(f"{name}: verifying")
    with fs.during("restore-verify"):
        for finding in verify(fs, Layout(stage), name, deep=True).findings:
            if finding.severity == "error":
                raise CorruptFileError(
                    f"the snapshot is damaged: {finding.what}",
                    where=finding.path.replace(str(stage), str(snapshot)),
                    expected=finding.expected,
                    found=finding.found,
                    hint=SNAPSHOT.damaged,
                )
        require_copy(placement.staged, table)


@dataclass(frozen=True, slots=True)
class Placement:
    """A table of a root, and where it is staged."""

    place: TablePlace

    @property
    def stage(self) -> Path:
        return self.place.layout.restores() / str(self.place.table)

    @property
    def staged(self) -> TablePlace:
        return TablePlace(self.place.fs, Layout(self.stage), self.place.table)

    @property
    def begun(self) -> bool:
        """Whether a restore was killed while it moved files into place. Readers find no such table."""
        there = (self.place.fs.stat(path) is not None for path in (self.stage / READY, self.stage / CLEARED))
        return all(there) and _is_table(self.staged) and not _is_table(self.place)

    def is_ready(self, mark: bytes, *, replacing: bool) -> bool:
        """Whether this snapshot is staged and verified, and only has to be put into place."""
        fs = self.place.fs
        if fs.stat(self.stage / READY) is None or fs.read(self.stage / READY) != mark:
            return False
        return self.begun or (replacing and fs.stat(self.stage / CLEARED) is None)

    def begin(self) -> None:
        """An empty stage. What a killed restore of another snapshot has put in place is removed first."""
        fs = self.place.fs
        if self.begun:
            self._clear()
        fs.remove_tree(self.stage)
        fs.mkdirs(self.stage)

    def ready(self, mark: bytes, *, replacing: bool) -> None:
        """All is staged, verified and synced. TableExistsError: something is in its way."""
        fs = self.place.fs
        self._require_free(replacing=replacing)
        if not replacing:
            fs.replace(self.stage / CLEARED, b"")
        with fs.during("restore-ready"):
            fs.replace(self.stage / READY, mark)

    def _require_free(self, *, replacing: bool) -> None:
        """TableExistsError: a file or directory of no table is in the way, or another quarantine."""
        for _, target in self._quarantines() if replacing else self._moves():
            stat = self.place.fs.stat(target)
            if stat is not None and (not stat.is_dir or self.place.fs.names(target)):
                raise TableExistsError(
                    f"something is in the place of table {self.place.table}. Nothing was changed",
                    where=target,
                    expected="nothing",
                    found="a directory" if stat.is_dir else "a file",
                    hint="move it away" + ("" if replacing else f", or restore with --replace {self.place.table}"),
                )

    def put(self) -> None:
        """Moves the staged table into place. LockLostError: a process writes the table that it replaces.

        What takes room is done before the former table goes: from then on there are renames only, but for a storage
        partition on another volume.
        """
        fs, place, stage = self.place.fs, self.place, self.stage
        with fs.during("restore-prepare"):
            for name in writable_names(fs, self.staged.layout, place.table.namespace):
                add_partition(fs, place.layout, place.table.namespace, name)
            for _, target in self._moves():
                fs.keep_dirs(target.parent, place.layout.root)
        if fs.stat(stage / CLEARED) is None:
            with ExitStack() as held:
                self._lock(held)
                with fs.during("restore-clear"):
                    fs.replace(stage / CLEARING, b"")
                    self._clear()
                    fs.rename(stage / CLEARING, stage / CLEARED)
                    fs.sync_dirs([stage])
        try:
            with fs.during("restore-place"):
                for source, target in self._moves():
                    self._move(source, target)
        except OSError as error:
            raise RetryableStorageError(
                f"table {place.table} is not whole in its place yet: {error.strerror or error}",
                where=error.filename,
                hint="free space on that volume, then run the same command again: it goes on. Readers wait for it",
            ) from error
        with fs.during("restore-clean"):
            fs.remove_tree(stage)

    def _lock(self, held: ExitStack) -> None:
        fs, place = self.place.fs, self.place
        for name in fs.names(place.streams):
            if name.endswith(".lock"):
                held.enter_context(take_lock(fs, place.streams / name))
        if fs.stat(place.merges) is not None:
            held.enter_context(lock_table(place))
        if fs.stat(place.user_definition) is not None:
            held.enter_context(lock_user_table(place, 0))

    def _moves(self) -> Iterator[tuple[Path, Path]]:
        """What is staged, and where each goes; the schema is the last."""
        staged, place, fs = self.staged, self.place, self.place.fs
        for directory in _locations(staged):
            yield directory, place.layout.root / directory.relative_to(self.stage)
        yield from self._quarantines()
        if fs.stat(_requeues(staged)) is not None:
            yield _requeues(staged), _requeues(place)
        for part in PARTS:
            source: Path = getattr(staged, part)
            if fs.stat(source) is not None:
                yield source, getattr(place, part)

    def _quarantines(self) -> Iterator[tuple[Path, Path]]:
        """Staged quarantines, without those that are there: other tables share them, or the replaced one had them."""
        fs, target = self.place.fs, self.place.layout.quarantine
        for name in fs.names(self.staged.layout.quarantine("")):
            source = self.staged.layout.quarantine(name)
            if not same_quarantine(fs, source, target(name)):
                yield source, target(name)

    def _move(self, source: Path, target: Path) -> None:
        fs = self.place.fs
        fs.keep_dirs(target.parent, self.place.layout.root)
        try:
            fs.rename(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._move_over(source, target)
        fs.sync_dirs([target.parent, source.parent])

    def _move_over(self, source: Path, target: Path) -> None:
        """Moves to another volume: a synced copy beside, then one rename."""
        fs, beside = self.place.fs, target.with_name(f".{target.name}.restore")
        fs.remove_tree(beside)
        copies = FileCopies(fs, target.parent)
        with fs.sync_guard(target.parent) as guard:
            copies.tree(source, beside)
            copies.sync(guard)
        copies.read_back()
        fs.rename(beside, target)
        clear(fs, source)

    def _clear(self) -> None:
        """Removes all of a table, its schema first: from then on readers find none."""
        fs, place = self.place.fs, self.place
        for path in (place.schema, place.schema_history, place.user_definition):
            if fs.stat(path) is not None:
                fs.unlink(path)
                fs.sync_dirs([path.parent])
        for directory in (*_locations(place), place.extended, place.merges, place.intraday, place.splayed):
            fs.remove_tree(directory)
        for path in (place.metadata_index, place.user_locations):
            fs.unlink(path)
        fs.remove_tree(_requeues(place))
        for cache in (place.layout.spark_checkpoint, place.layout.scratch):
            fs.remove_tree(cache(place.table, ""))


def _is_table(place: TablePlace) -> bool:
    return any(place.fs.stat(path) is not None for path in (place.schema, place.user_definition))


def _requeues(place: TablePlace) -> Path:
    """What interrupted requeues of all streams have left."""
    return place.layout.requeues(place.table, "")


def _locations(place: TablePlace) -> Iterator[Path]:
    """Directories of the table below storage partitions, whatever records say of them."""
    for root in filter(None, (place.partitions, place.user_partitions, place.user_intraday)):
        for internal in place.fs.names(root):
            for value in place.fs.names(root / internal):
                if place.fs.stat(root / internal / value / place.table.table) is not None:
                    yield root / internal / value / place.table.table
