"""Snapshots of tables, and mirrors, which are chains of them.

A snapshot is a root of its own in a directory, published by one rename of a complete, synced tree.

It is staged in ``.<name>.snapshot`` beside the directory, copied, synced, verified and published as ``copying`` says.
What a killed snapshot has left there goes with the next one. The parts of the manifest are the tables. ``about`` has
``time_ms``; that of a table ``rows``, ``epochs`` by stream, ``digest`` (see ``content``), and ``partitions``, the
writable storage partitions.

A mirror of a database root is a link that leads to the newest of a chain of snapshots. Each pass takes a snapshot into
``.<DIR>.mirror/<number>``, since the one before, and then lets the link ``DIR`` lead to it, by one rename. So readers
of the mirror find epochs that were committed, all of a table at once, at every moment. What a killed mirror has left is
removed by the next one.

A table that a command has dropped goes with the next pass: the link leads to a snapshot without it. The one before,
which readers may have open, has it until another one is shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import PinnedUserTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.epochs.files.stream_notes import read_removed
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SettingsError, SnapshotMovedError, TableExistsError, TableNotFoundError, near
from sparkhaven.store.format.manifest import SNAPSHOT, Manifest, encode, load
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import drop_numbers, load_drop
from sparkhaven.store.merges.history import row_content
from sparkhaven.store.merges.merge_records import all_values, generations, load_record, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.transfer.content import CopiedTable, require_copy, same_content
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
from sparkhaven.writers.transfer.table_files import copy_table, copy_user_table, is_quarantine, tree_in_step

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


KEPT = 2  # snapshots of a mirror: readers of the last but one may have files to open
DIGITS = 9


@dataclass(frozen=True, slots=True)
class Mirror:
    """The link that readers follow, and the directory of its snapshots."""

    fs: Fs
    link: Path

    @property
    def store(self) -> Path:
        return self.link.with_name(f".{self.link.name}.mirror")

    def finished(self) -> list[Path]:
        """The snapshots that are whole, oldest first."""
        paths = (self.store / name for name in self.fs.names(self.store) if name.isdecimal())
        return [path for path in paths if self.fs.stat(path / SNAPSHOT.name) is not None]

    def ship(
        self, layout: Layout, tables: Sequence[TableName], *, time_ms: int, progress: Progress = lambda _: None
    ) -> TakenSnapshot:
        """One pass: ships what was committed since the last one. Raises what ``take_snapshot`` raises.

        SettingsError: the mirror is ahead of the root, has a table that the root lacks, or is one of another root.
        TableExistsError: the link is something else. LockLostError: another process writes this mirror.
        """
        fs, store, dropped = self.fs, self.store, list[str]()
        path_outside(fs, layout, self.link)
        if fs.stat(self.link, follow=False) is not None and not self._is_ours():
            raise TableExistsError(
                "something else is in the place of the mirror",
                where=self.link,
                expected=f"nothing, or a link into {store}",
                hint="choose another directory",
            )
        for directory in fs.mkdirs(store):
            fs.sync_dirs([directory.parent])
        with locked_directory(fs, store, "another mirror into this directory"):
            finished = self.finished()
            last = finished[-1] if finished else None
            if last is not None:
                shipped = load_snapshot(fs, last)
                dropped = _require_ahead(fs, layout, tables, shipped, self.link)
                if _unchanged(fs, layout, tables, last, shipped):
                    self._switch(last)
                    return TakenSnapshot(shipped, dict.fromkeys(shipped.tables, 0), dict.fromkeys(shipped.tables, 0))
                _require_same_past(fs, layout, last, shipped, dropped, self.link)
            number = int(last.name) + 1 if last is not None else 1
            taken = take_snapshot(
                fs, layout, tables, store / f"{number:0{DIGITS}}", time_ms=time_ms, since=last, progress=progress
            )
            with fs.during("mirror-switch"):
                self._switch(store / f"{number:0{DIGITS}}")
            with fs.during("mirror-clean"):
                self._clean()
        return replace(taken, dropped=tuple(dropped))

    def _is_ours(self) -> bool:
        stat = self.fs.stat(self.link, follow=False)
        return stat is not None and stat.is_link and self.fs.resolve(self.link).parent == self.fs.resolve(self.store)

    def _switch(self, snapshot: Path) -> None:
        new = self.store / "new"
        self.fs.unlink(new)
        self.fs.symlink(f"{self.store.name}/{snapshot.name}", new)
        self.fs.rename(new, self.link)
        self.fs.sync_dirs([self.link.parent])

    def _clean(self) -> None:
        """Removes all but the newest snapshots; first their manifests, so that none is whole that is half removed."""
        kept = {path.name for path in self.finished()[-KEPT:]}
        for name in self.fs.names(self.store):
            if name not in kept:
                self.fs.unlink(self.store / name / SNAPSHOT.name)
                self.fs.remove_tree(self.store / name)


def _require_ahead(
    fs: Fs, layout: Layout, tables: Sequence[TableName], shipped: SnapshotManifest, link: Path
) -> list[str]:
    """The shipped tables that were dropped since.

    SettingsError: the root lacks tables or epochs that the mirror has, as one that lost its disk.
    """
    hint = f"look for what the root has lost. To begin again, move {link} and its snapshots away"
    dropped = []
    for name, table in shipped.tables.items():
        place = TablePlace(fs, layout, TableName.parse(name))
        if place.table not in tables:
            if not _is_dropped(place, table, shipped.time_ms):
                raise SettingsError(f"the root has no table {name}, its mirror has", where=layout.root, hint=hint)
            dropped.append(name)
            continue
        epochs = pinned_of(open_table(layout.root, name, fs=fs)).epochs if table.epochs else {}
        for stream, epoch in table.epochs.items():
            if epochs.get(stream, -1) < epoch and read_removed(place.of_stream(stream)) is None:
                raise SettingsError(
                    f"the mirror of {name} is ahead of the root",
                    where=layout.root,
                    expected=f"epoch {epoch} of stream {stream!r}, or a later one",
                    found=f"epoch {epochs[stream]}" if stream in epochs else "no such stream",
                    hint=hint,
                )
    return dropped


def _require_same_past(
    fs: Fs, layout: Layout, last: Path, shipped: SnapshotManifest, dropped: Sequence[str], link: Path
) -> None:
    """SettingsError: the root has another past than was shipped, as a copy that went its own way.

    Epochs that the root does not keep any more cannot be looked at. A table that was dropped since has no past.
    """
    for name, table in shipped.tables.items():
        place, copy = (TablePlace(fs, top, TableName.parse(name)) for top in (layout, Layout(last)))
        numbers = drop_numbers(place)
        if name in dropped or (numbers and load_drop(place, numbers[-1]).time_ms >= shipped.time_ms):
            continue
        differing = next(_other_past(place, copy, table), None)
        if differing is not None:
            raise SettingsError(
                f"the root is not the one that was mirrored: {name} has another past",
                where=layout.root,
                expected=f"{differing} as it was shipped",
                found="other rows, or none",
                hint=f"name the root that was mirrored. To mirror this one instead, move {link} and its snapshots away",
            )


def _other_past(place: TablePlace, copy: TablePlace, table: CopiedTable) -> Iterator[str]:
    """What of a shipped table was otherwise in the root at the shipped epochs."""
    for stream, epoch in table.epochs.items():
        try:
            state = load_stream(place.of_stream(stream), epoch=epoch)
        except TableNotFoundError:
            continue
        if read_removed(place.of_stream(stream)) is not None or not state.syncs_each_batch:
            continue  # a power failure may have taken epochs that were shipped, and others have their numbers
        for key, shipped in load_stream(copy.of_stream(stream)).locations.items():
            location = state.locations.get(key)  # None: removed since
            if location is None or location.truncated or shipped.truncated:
                continue
            if location.files != shipped.files:
                yield f"{key.internal}/{key.value} at epoch {epoch} of stream {stream!r}"
    for value in all_values(copy):
        record = newest(copy, value)
        if record is None:
            continue
        known = record.generation in generations(place, value)
        if not known or row_content(load_record(place, value, record.generation)) != row_content(record):
            yield f"merge {record.generation} of {value}"


def _is_dropped(place: TablePlace, shipped: CopiedTable, shipped_ms: int) -> bool:
    """Whether the last drop of a table had all shipped epochs; of a table without streams: whether it is newer.

    An older drop does not count: a table of that name that was created after it may be lost. CorruptFileError: the
    record is damaged.
    """
    numbers = drop_numbers(place)
    if place.fs.stat(place.schema) is not None or not numbers:
        return False
    drop = load_drop(place, numbers[-1])
    if not shipped.epochs:
        return drop.time_ms >= shipped_ms
    epochs = {stream.stream: stream.epoch for stream in drop.streams}
    return all(epochs.get(stream, -1) >= epoch for stream, epoch in shipped.epochs.items())


def _unchanged(fs: Fs, layout: Layout, tables: Sequence[TableName], last: Path, shipped: SnapshotManifest) -> bool:
    """Whether the root has what was shipped last. A validation alone is shipped with the next rows."""
    if {str(table) for table in tables} != shipped.tables.keys():
        return False
    for table in tables:
        known = shipped.tables[str(table)]
        place, copy = TablePlace(fs, layout, table), TablePlace(fs, Layout(last), table)
        if not same_content(place, known):
            return False
        pinned = pinned_of(open_table(layout.root, str(table), fs=fs))
        if pinned.epochs != known.epochs:
            return False
        records = pinned.plan().records
        if tree_in_step(place, pinned.schema, records) != tree_in_step(copy, pinned.schema, records):
            return False
    return True
