"""Tables of a snapshot are put into a database root: copied beside, verified whole, then moved into place.

Each is staged in ``.restore/<table>`` of the root, a small root of its own. Its file ``ready`` names the snapshot. It
is written once all is verified and synced. From then on a repeated restore only goes on moving.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.failure_note import failed_streams
from sparkhaven.store.epochs.files.removal_note import noted_streams
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableExistsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import refuse_doomed
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.copies.content import require_copy, same_content
from sparkhaven.writers.copies.file_copies import FileCopies, other_content
from sparkhaven.writers.copies.manifest import AGAIN, MANIFEST, CopiedTable, SnapshotManifest, load_manifest
from sparkhaven.writers.copies.placement import Placement
from sparkhaven.writers.copies.quarantine_copy import move_ledgers
from sparkhaven.writers.copies.snapshot import Progress, locked_directory
from sparkhaven.writers.partitions import add_partition


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
    manifest = load_manifest(fs, snapshot)
    names = manifest.chosen(tables, snapshot / MANIFEST)
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
    table, mark = manifest.tables[str(name)], f"{manifest.crc:08x}\n".encode()
    if not placement.is_ready(mark, replacing=replacing):
        placement.begin()
        shared = manifest.quarantines_of(table)
        _stage(fs, snapshot, placement, replace(table, files={**table.files, **shared}), progress)
        placement.ready(mark, replacing=replacing)
    placement.put()
    require_copy(placement.place, table, lambda _: False)
    progress(f"{name}: restored, {table.rows:,} rows")


def _stage(fs: Fs, snapshot: Path, placement: Placement, table: CopiedTable, progress: Progress) -> None:
    """Copies and verifies. CorruptFileError: a file of the snapshot is damaged."""
    stage, name = placement.stage, placement.place.table
    copies = FileCopies(fs, stage, stage, on_copied=lambda size: progress(f"{name}: {size / (1 << 30):.0f} GiB copied"))
    with fs.during("restore-copy"):
        for path, (size, crc) in sorted(table.files.items()):
            source = snapshot / path
            stat = fs.stat(source)
            if stat is None or stat.size < size:
                raise other_content(source, f"{size} bytes", f"{stat.size} bytes" if stat else "no file")
            copies.commit(source, stage / path, size, crc)
        for partition in table.partitions:
            add_partition(fs, Layout(stage), name.namespace, partition)
        streams = list_streams(placement.staged)
        move_ledgers((placement.staged.of_stream(stream) for stream in streams), placement.place.layout)
    progress(f"{name}: verifying")
    with fs.during("restore-verify"):
        for finding in verify(fs, Layout(stage), name, deep=True).findings:
            if finding.severity == "error":
                raise CorruptFileError(
                    f"the snapshot is damaged: {finding.what}",
                    where=finding.path.replace(str(stage), str(snapshot)),
                    expected=finding.expected,
                    found=finding.found,
                    hint=AGAIN,
                )
        require_copy(placement.staged, table)
    with fs.during("restore-sync"):
        copies.sync()
