"""A mirror of a database root: a link that leads to the newest of a chain of snapshots.

Each pass takes a snapshot into ``.<DIR>.mirror/<number>``, since the one before, and then lets the link
``DIR`` lead to it, by one rename. So readers of the mirror find epochs that were committed, all of a table at once, at
every moment. What a killed mirror has left is removed by the next one.

A table that a command has dropped goes with the next pass: the link leads to a snapshot without it. The one before,
which readers may have open, has it until another one is shipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.epochs.files.removal_note import read_removed
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.format.manifest import SNAPSHOT
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import drop_numbers, load_drop
from sparkhaven.store.merges.history import row_content
from sparkhaven.store.merges.merge_records import all_values, generations, load_record, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.transfer.content import CopiedTable, same_content
from sparkhaven.writers.transfer.copying import locked_directory
from sparkhaven.writers.transfer.snapshot import (
    Progress,
    SnapshotManifest,
    TakenSnapshot,
    load_snapshot,
    path_outside,
    take_snapshot,
)
from sparkhaven.writers.transfer.table_files import tree_in_step

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
        if tree_in_step(place, records := pinned.plan().records) != tree_in_step(copy, records):
            return False
    return True
