"""Exports a pinned snapshot of a table as a tree of files for other programs.

The tree is written beside its place, synced, read back, and published by one step, as ``copying`` says.

=======================  =========================================================================================
what is there            what an export does
=======================  =========================================================================================
nothing, empty           writes beside it, renames
the same export          nothing: the id of its manifest is equal, and its files have their sizes
another export           with ``replace``: exchanges the two in one step, removes the old one. A file system without
                         exchange has two renames, by way of ``.<name>.replaced``: between them there is no tree
anything else            refuses: what was not exported is never removed
=======================  =========================================================================================

A new tree is staged in ``.<name>.export``, which is locked meanwhile; so is an old tree that takes its place. If an
export was killed between two renames, the old tree comes back first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.errors import CorruptFileError, SettingsError, TableExistsError
from sparkhaven.store.format.parquet.trees import MANIFEST, TreeManifest, decode_manifest
from sparkhaven.store.format.parquet.trees import staged as stage_of
from sparkhaven.store.io.fs import Fs, files_below
from sparkhaven.store.layout import Layout
from sparkhaven.writers.transfer.copying import locked_directory, publish, staged
from sparkhaven.writers.transfer.export_plan import ExportOptions, ExportPlan, plan_export
from sparkhaven.writers.transfer.tree_writer import TreeWriter

KEPT = ("Intraday", "Schemas", "Systems")
RUNNING = "another export into this directory"


class ExportOutcome(StrEnum):
    """What an export does or did; unchanged: the same export was there."""

    EXPORTED = "exported"
    UNCHANGED = "unchanged"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Exported:
    outcome: ExportOutcome
    plan: ExportPlan
    manifest: TreeManifest | None = None


def planned_export(table: PinnedTable, out: Path, options: ExportOptions, *, replace_other: bool = False) -> Exported:
    """What ``export_tree`` would do; nothing is written."""
    plan = plan_export(table, options)
    before = exported_before(table.place.fs, out, table.name, plan.id, replace_other)
    return Exported(ExportOutcome.PLANNED if before is None else ExportOutcome.UNCHANGED, plan, before)


def export_tree(
    table: PinnedTable,
    out: Path,
    options: ExportOptions,
    *,
    now_ms: int,
    replace_other: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Exports a table to the directory ``out``, as ``export_path`` gives it.

    ``now_ms``: the time in column files; ``replace_other``: another export there is replaced. Raises what
    ``plan_export``, ``exported_before`` and ``check_leaf`` raise; nothing is published then.
    """
    fs, plan = table.place.fs, plan_export(table, options)
    with staged_tree(fs, out):
        before = exported_before(fs, out, table.name, plan.id, replace_other)
        if before is not None:
            return Exported(ExportOutcome.UNCHANGED, plan, before)
        manifest = TreeWriter(fs, table, stage_of(out), plan, now_ms, on_progress).write()
        _publish(fs, out)
    return Exported(ExportOutcome.EXPORTED, plan, manifest)


def export_path(fs: Fs, layout: Layout, out: Path) -> Path:
    """The directory of an export. SettingsError: it cannot be that of one."""
    path = Path(fs.resolve(out.absolute().parent)) / out.name
    root = fs.resolve(layout.root)
    inside = [root / name for name in KEPT]
    if path == root or path in root.parents or any(path == kept or kept in path.parents for kept in inside):
        raise SettingsError(
            "the directory belongs to the database",
            where=path,
            expected=f"a directory outside of {', '.join(KEPT)} of {root}",
            hint="choose another --out",
        )
    if not out.name or out.name.startswith("."):
        raise SettingsError("--out names no directory", expected="a name without a leading dot", found=repr(out.name))
    parent = fs.stat(path.parent)
    if parent is None or not parent.is_dir:
        raise SettingsError("no such directory", where=path.parent, hint="create it first")
    return path


@contextmanager
def staged_tree(fs: Fs, path: Path) -> Iterator[None]:
    """Holds the staging directory of a tree; takes up what a killed export has left. Raises as ``staged``."""
    aside = _aside(path)
    with staged(fs, stage_of(path), RUNNING):
        if fs.stat(aside) is not None and fs.stat(path) is None:
            fs.rename(aside, path)
        fs.remove_tree(aside)
        yield


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.replaced")


def exported_before(fs: Fs, out: Path, table: str, id_: str, replace: bool) -> TreeManifest | None:
    """The manifest of the same export that is in ``out`` already, None where one is to be written.

    TableExistsError: there is another export, or something else. CorruptFileError: files of the same export are gone.
    """
    stat = fs.stat(out, follow=False)
    names = fs.names(out) if stat is not None and stat.is_dir else []
    if stat is None or (stat.is_dir and not names):
        return None
    if MANIFEST not in names:
        raise _of_others(out, ", ".join(names[:3]) or "a file")
    path = out / MANIFEST
    manifest = None
    try:
        manifest = decode_manifest(fs.read(path), path)
    except CorruptFileError:
        if not replace:
            raise
    if manifest is not None and manifest.table != table:
        raise TableExistsError(
            "the directory has an export of another table",
            where=path,
            expected=table,
            found=manifest.table,
            hint="choose another directory, or remove this one",
        )
    if replace and (manifest is None or manifest.id != id_ or _gone(fs, out, manifest)):
        if manifest is not None and (others := _others(fs, out, manifest)):
            raise _of_others(out, ", ".join(others[:3]))
        return None
    assert manifest is not None  # noqa: S101
    if manifest.id != id_:
        raise TableExistsError(
            "the directory has another export of this table",
            where=path,
            expected=f"export {id_}",
            found=f"export {manifest.id}, layout {manifest.layout}, {manifest.rows} rows",
            hint="--replace writes the tree anew and removes that one",
        )
    if gone := _gone(fs, out, manifest):
        raise CorruptFileError(
            "files of this export have changed since",
            where=out / gone,
            expected="the file with its size",
            found="nothing, or another size",
            hint="--replace writes the tree anew",
        )
    return manifest


def _of_others(out: Path, names: str) -> TableExistsError:
    return TableExistsError(
        "the directory has files that no export has written",
        where=out,
        expected=f"nothing, or an exported tree with {MANIFEST}",
        found=names,
        hint="choose another directory, or move them away",
    )


def _others(fs: Fs, root: Path, manifest: TreeManifest) -> list[str]:
    """Files of the tree that its manifest does not name."""
    there = (path.relative_to(root).as_posix() for path in files_below(fs, root))
    return [name for name in there if name != MANIFEST and name not in manifest.files]


def _gone(fs: Fs, root: Path, manifest: TreeManifest) -> str | None:
    """A file that is not there with its size."""
    sizes = ((name, state.size, fs.stat(root / name)) for name, state in manifest.files.items())
    return next((name for name, size, stat in sizes if stat is None or stat.size != size), None)


def _publish(fs: Fs, path: Path) -> None:
    """Puts the staged tree into place, durably, and removes a tree that was there.

    LockLostError: another export has just put that one there, and is not done.
    """
    stage, aside = stage_of(path), _aside(path)
    if not fs.names(path):
        with fs.during("export-publish"):
            publish(fs, stage, path)
        return
    with locked_directory(fs, path, RUNNING):  # in the place of the staging directory it is nobody else's
        with fs.during("export-publish"):
            if fs.exchange(stage, path):
                fs.sync_dirs([path.parent])
            else:
                fs.rename(path, aside)
                fs.step("export-aside")
                publish(fs, stage, path)
        with fs.during("export-clean"):
            fs.remove_tree(stage)
            fs.remove_tree(aside)
