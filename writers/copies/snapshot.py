"""A snapshot of tables: a root of its own in a directory, published by one rename of a complete, synced tree.

It is staged in ``.<name>.snapshot`` beside the directory, which is locked meanwhile. What a killed snapshot has left
there goes with the next one. The manifest is the last file that is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_user_table import PinnedUserTable
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.errors import LockLostError, SettingsError, SnapshotMovedError, SparkhavenError, TableExistsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.copies.content import require_copy
from sparkhaven.writers.copies.file_copies import NONE, FileCopies, Previous
from sparkhaven.writers.copies.manifest import (
    MANIFEST,
    CopiedTable,
    SnapshotManifest,
    encode_manifest,
    load_manifest,
)
from sparkhaven.writers.copies.table_copy import copy_table
from sparkhaven.writers.copies.user_table_copy import copy_user_table

ATTEMPTS = 5
Progress = Callable[[str], object]


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
    path = snapshot_path(fs, layout, out)
    with ExitStack() as held:
        earlier = load_manifest(fs, since) if since is not None else None
        if since is not None:
            held.enter_context(locked_directory(fs, since, "another snapshot since this one"))
        stage = held.enter_context(_staging(fs, path))
        copied: dict[str, CopiedTable] = {}
        copies: dict[str, FileCopies] = {}
        for table in tables:
            known = earlier.tables.get(str(table)) if earlier else None
            previous = Previous(since, known.files) if since is not None and known is not None else NONE
            told = partial(_told, progress, table)
            with fs.during("snapshot-copy"):
                new = partial(FileCopies, fs, stage, path, previous, told)
                copied[str(table)], copies[str(table)] = _copied(TablePlace(fs, layout, table), new, epoch, time_ms)
            progress(f"{table}: {copied[str(table)].rows:,} rows")
        with fs.during("snapshot-check"):
            for table in tables:
                place, files = TablePlace(fs, Layout(stage), table), copies[str(table)]
                require_copy(place, copied[str(table)], files.fresh.__contains__)
        with fs.during("snapshot-sync"):
            for files in copies.values():
                files.sync()
        manifest = SnapshotManifest(time_ms, copied)
        with fs.during("snapshot-manifest"):
            fs.replace(stage / MANIFEST, encode_manifest(manifest))
        with fs.during("snapshot-publish"):
            fs.rename(stage, path)
            fs.sync_dirs([path.parent])
    return TakenSnapshot(
        manifest, {name: c.copied for name, c in copies.items()}, {name: c.linked for name, c in copies.items()}
    )


def snapshot_path(fs: Fs, layout: Layout, out: Path) -> Path:
    """Where a snapshot goes. SettingsError: in the database, or above it. TableExistsError: something is there."""
    path = path_outside(fs, layout, out)
    if fs.stat(path, follow=False) is not None and (not fs.is_dir(path) or fs.names(path)):
        finished = fs.stat(path / MANIFEST) is not None
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


def _told(progress: Progress, table: TableName, copied: int) -> None:
    progress(f"{table}: {copied / (1 << 30):.0f} GiB copied")


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
            copies.drop()
    raise AssertionError("unreachable")


@contextmanager
def locked_directory(fs: Fs, directory: Path, what: str) -> Iterator[None]:
    """Holds the lock of a directory. LockLostError, ``what`` is running: another process holds it."""
    lock = fs.lock(directory, make=False)
    stat = fs.stat(directory)
    if lock is None or stat is None or stat.inode != lock.inode:
        if lock is not None:
            lock.release()
        raise LockLostError(f"{what} is running", where=directory, hint="wait until it ends, then run this again")
    with lock:
        yield


@contextmanager
def _staging(fs: Fs, path: Path) -> Iterator[Path]:
    """An empty, locked directory beside ``path``, which is to be renamed to it; after an error it is removed."""
    stage = path.with_name(f".{path.name}.snapshot")
    fs.mkdirs(stage)
    with locked_directory(fs, stage, "another snapshot into this directory"):
        fs.unlink(stage / MANIFEST)  # with it the directory is a copy, which is not written
        for name in fs.names(stage):
            stat = fs.stat(stage / name, follow=False)
            if stat is not None and stat.is_dir:
                fs.remove_tree(stage / name)
            else:
                fs.unlink(stage / name)
        try:
            yield stage
        except (SparkhavenError, OSError):
            fs.remove_tree(stage)
            raise
