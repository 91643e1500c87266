"""A staged table is moved into its root by renames, its schema last: until then readers find no such table.

Of a user table the definition is the last. Each step can be repeated. What is still staged has not been moved, and is
moved then. A table that is replaced is removed first, its schema before all else. The file ``cleared`` says that this
is done.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.lock import take_lock
from sparkhaven.store.errors import RetryableStorageError, TableExistsError
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import lock_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.copies.file_copies import copy_bytes, files_below, path_in
from sparkhaven.writers.copies.quarantine_copy import same_quarantine
from sparkhaven.writers.partitions import add_partition, writable_names
from sparkhaven.writers.users.table_lock import lock_user_table

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
        files = list(files_below(fs, source)) if fs.is_dir(source) else [source]
        copies = {file: beside / file.relative_to(source) for file in files}
        for file, copy in copies.items():
            fs.mkdirs(copy.parent)
            copy_bytes(fs, file, copy)
        fs.sync(copies.values())
        fs.sync_dirs({path for copy in copies.values() for path in copy.parents if path_in(path, beside)})
        fs.rename(beside, target)
        if fs.is_dir(source):
            fs.remove_tree(source)
        else:
            fs.unlink(source)

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
