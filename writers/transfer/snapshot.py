"""A snapshot of tables: a root of its own in a directory, published by one rename of a complete, synced tree.

It is staged in ``.<name>.snapshot`` beside the directory, copied, synced, verified and published as ``copying`` says.
What a killed snapshot has left there goes with the next one. The parts of the manifest are the tables. ``about`` has
``time_ms``; that of a table ``rows``, ``epochs`` by stream, ``digest`` (see ``content``), and ``partitions``, the
writable storage partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_user_table import PinnedUserTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import SettingsError, SnapshotMovedError, TableExistsError, TableNotFoundError, near
from sparkhaven.store.format.manifest import SNAPSHOT, Manifest, encode, load
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.transfer.content import CopiedTable, require_copy
from sparkhaven.writers.transfer.copying import (
    NONE,
    CopyProgress,
    FileCopies,
    Files,
    Previous,
    locked_directory,
    publish,
    staged,
)
from sparkhaven.writers.transfer.table_files import copy_table, copy_user_table, is_quarantine

ATTEMPTS = 5
Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What a snapshot has, by table."""

    time_ms: int
    tables: Mapping[str, CopiedTable]

    @staticmethod
    def of(manifest: Manifest) -> SnapshotManifest:
        """The view of a manifest; what is missing or odd is a ValueError or alike."""
        tables = {str(TableName.parse(name)): CopiedTable.of(part) for name, part in manifest.parts.items()}
        return SnapshotManifest(int(manifest.about["time_ms"]), tables)

    @property
    def whole(self) -> Manifest:
        """The content of its file."""
        parts = {name: table.part for name, table in self.tables.items()}
        return Manifest(SNAPSHOT, {"time_ms": self.time_ms}, parts)

    def quarantines_of(self, table: CopiedTable) -> Files:
        """All files of the quarantines of a table, also those that other tables that share one have seen later."""
        names = {Path(path).parts[1] for path in table.files if is_quarantine(path)}
        files = {path: state for other in self.tables.values() for path, state in other.files.items()}
        return {path: files[path] for path in files if is_quarantine(path) and Path(path).parts[1] in names}

    def chosen(self, names: list[TableName] | None, where: Path) -> list[TableName]:
        """The named tables, None: all. TableNotFoundError: the snapshot does not have one."""
        for name in names or ():
            if str(name) not in self.tables:
                raise TableNotFoundError(
                    f"the snapshot has no table {name}",
                    where=where,
                    expected=near(str(name), sorted(self.tables)),
                    found=str(name),
                    hint="name tables of the snapshot, or none for all",
                )
        return sorted(set(names)) if names else sorted(map(TableName.parse, self.tables))


def load_snapshot(fs: Fs, directory: Path) -> SnapshotManifest:
    """The manifest of a snapshot. Raises as ``manifest.load``."""
    return load(fs, directory, SNAPSHOT, SnapshotManifest.of)


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """``copied`` and ``linked``: bytes by table; linked ones take no room of their own.

    ``dropped``: tables that the snapshot before has, and that a command has dropped since.
    """

    manifest: SnapshotManifest
    copied: dict[str, int]
    linked: dict[str, int]
    dropped: tuple[str, ...] = ()


def take_snapshot(
    fs: Fs,
    layout: Layout,
    tables: Sequence[TableName],
    out: Path,
    *,
    time_ms: int,
    epoch: int | Mapping[str, int] | None = None,
    since: Path | None = None,
    progress: Progress = lambda _: None,
) -> TakenSnapshot:
    """Copies tables, each at its newest epochs, or at ``epoch`` as ``open_table`` takes it of one table.

    Ingest, merges and removals may run meanwhile. ``since``: an earlier snapshot, with which files are shared.
    TableExistsError: ``out`` exists. TableNotFoundError, SettingsError: the epoch is not kept, or its rows are only in
    newer history. SnapshotMovedError: rows were removed again and again while they were copied. CorruptFileError: a
    file is damaged, or the copy cannot be opened; no snapshot is published.
    """
    path, counted = snapshot_path(fs, layout, out), CopyProgress(progress)
    stage = path.with_name(f".{path.name}.snapshot")
    with ExitStack() as held:
        earlier = load_snapshot(fs, since) if since is not None else None
        if since is not None:
            held.enter_context(locked_directory(fs, since, "another snapshot since this one"))
        held.enter_context(staged(fs, stage, "another snapshot into this directory"))
        guard = held.enter_context(fs.sync_guard(stage))
        tables_copied: dict[str, tuple[CopiedTable, FileCopies]] = {}
        for table in tables:
            known = earlier.tables.get(str(table)) if earlier else None
            previous = Previous(since, known.files) if since is not None and known is not None else NONE
            count = partial(counted.count, str(table))
            with fs.during("snapshot-copy"):
                new = partial(FileCopies, fs, stage, count, home=path, previous=previous)
                one = tables_copied[str(table)] = _copied(TablePlace(fs, layout, table), new, epoch, time_ms)
            progress(f"{table}: {one[0].rows:,} rows")
        with fs.during("snapshot-sync"):
            for _, files in tables_copied.values():
                files.sync(guard)
        with fs.during("snapshot-check"):
            for table in tables:
                copied, files = tables_copied[str(table)]
                require_copy(TablePlace(fs, Layout(stage), table), copied, files.fresh.__contains__)
        manifest = SnapshotManifest(time_ms, {name: copied for name, (copied, _) in tables_copied.items()})
        with fs.during("snapshot-manifest"):
            fs.replace(stage / SNAPSHOT.name, encode(manifest.whole))
        with fs.during("snapshot-publish"):
            publish(fs, stage, path)
    sizes = {name: (files.copied, files.linked) for name, (_, files) in tables_copied.items()}
    copied_bytes, linked_bytes = ({name: size[side] for name, size in sizes.items()} for side in (0, 1))
    return TakenSnapshot(manifest, copied_bytes, linked_bytes)


def snapshot_path(fs: Fs, layout: Layout, out: Path) -> Path:
    """Where a snapshot goes. SettingsError: in the database, or above it. TableExistsError: something is there."""
    path = path_outside(fs, layout, out)
    if fs.stat(path, follow=False) is not None and (not fs.is_dir(path) or fs.names(path)):
        finished = fs.stat(path / SNAPSHOT.name) is not None
        raise TableExistsError(
            "a snapshot is there already" if finished else "something is there already",
            where=path,
            expected="nothing, or an empty directory",
            hint="choose another" + (f". With --since {path} it shares files with this one" if finished else ""),
        )
    return path


def path_outside(fs: Fs, layout: Layout, out: Path) -> Path:
    """A path that may be created. SettingsError: it is in the database, or above it, or in no directory."""
    path, root = fs.resolve(out.absolute().parent) / out.name, fs.resolve(layout.root)
    if path == root or root in path.parents or path in root.parents:
        expected = f"one outside of {root}"
        raise SettingsError("the directory belongs to the database", where=path, expected=expected, hint="name another")
    if not fs.is_dir(path.parent):
        raise SettingsError("no such directory", where=path.parent, hint="create it first")
    return path


def _copied(
    place: TablePlace, new: Callable[[], FileCopies], epoch: int | Mapping[str, int] | None, time_ms: int
) -> tuple[CopiedTable, FileCopies]:
    for attempt in range(ATTEMPTS):
        copies = new()
        try:
            pinned = pinned_of(open_table(place.layout.root, str(place.table), epoch=epoch, fs=place.fs))
            if isinstance(pinned, PinnedUserTable):
                return copy_user_table(place, copies), copies
            return copy_table(place, pinned, copies, time_ms), copies
        except (SnapshotMovedError, FileNotFoundError) as error:
            if attempt == ATTEMPTS - 1:
                raise SnapshotMovedError(
                    "rows were removed while they were copied, in every attempt",
                    where=place.intraday,
                    expected="one attempt without a removal",
                    found=str(error).splitlines()[0],
                    hint="run it again",
                ) from error
            copies.drop(is_quarantine)  # another table may have its files, too
    raise AssertionError("unreachable")
