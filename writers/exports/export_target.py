"""The directory that an export makes, and how it is published: by one rename of a complete tree.

=======================  =========================================================================================
what is there            what an export does
=======================  =========================================================================================
nothing, empty           writes beside it, renames
the same export          nothing: the id of its manifest is equal, and its files have their sizes
another export           with ``replace``: exchanges the two in one step, removes the old one. A file system without
                         exchange has two renames, by way of ``.<name>.replaced``: between them there is no tree
anything else            refuses: what was not exported is never removed
=======================  =========================================================================================

A new tree is staged in ``.<name>.export`` beside the directory, which is locked meanwhile; so is an old tree that
takes its place. What a killed export has left there goes with the next one; if it was killed between two renames, the
old tree comes back first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, LockLostError, SettingsError, TableExistsError
from sparkhaven.store.format.parquet.manifest import Manifest, decode_manifest
from sparkhaven.store.format.parquet.trees import MANIFEST, staged
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.exports.leaves import bytes_of

KEPT = ("Intraday", "Schemas", "Systems")


@dataclass(frozen=True, slots=True)
class ExportTarget:
    path: Path

    @property
    def stage(self) -> Path:
        return staged(self.path)

    @property
    def aside(self) -> Path:
        return self.path.with_name(f".{self.path.name}.replaced")


def target_of(fs: Fs, layout: Layout, out: Path) -> ExportTarget:
    """SettingsError: the directory cannot be that of an export."""
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
    return ExportTarget(path)


@contextmanager
def locked(fs: Fs, target: ExportTarget) -> Iterator[None]:
    """Makes an empty staging directory and holds its lock; takes up what a killed export has left."""
    fs.mkdirs(target.stage)
    lock = fs.lock(target.stage, make=False)
    stat = fs.stat(target.stage)
    if lock is None or stat is None or stat.inode != lock.inode:
        if lock is not None:
            lock.release()
        raise _running(target)
    with lock:
        if fs.stat(target.aside) is not None and fs.stat(target.path) is None:
            fs.rename(target.aside, target.path)
        fs.remove_tree(target.aside)
        for name in fs.names(target.stage):
            clear(fs, target.stage / name)
        yield


def clear(fs: Fs, path: Path) -> None:
    stat = fs.stat(path, follow=False)
    if stat is not None and stat.is_dir:
        fs.remove_tree(path)
    else:
        fs.unlink(path)


def exported_before(fs: Fs, target: ExportTarget, table: str, id_: str, replace: bool) -> Manifest | None:
    """The manifest of the same export that is there already, None where one is to be written.

    TableExistsError: there is another export, or something else. CorruptFileError: files of the same export are gone.
    """
    stat = fs.stat(target.path, follow=False)
    names = fs.names(target.path) if stat is not None and stat.is_dir else []
    if stat is None or (stat.is_dir and not names):
        return None
    if MANIFEST not in names:
        raise TableExistsError(
            "the directory has files that no export has written",
            where=target.path,
            expected=f"nothing, or an exported tree with {MANIFEST}",
            found=", ".join(names[:3]) or "a file",
            hint="choose another directory, or move this one away",
        )
    path = target.path / MANIFEST
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
    if replace and (manifest is None or manifest.id != id_ or _gone(fs, target.path, manifest)):
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
    if gone := _gone(fs, target.path, manifest):
        raise CorruptFileError(
            "files of this export have changed since",
            where=target.path / gone,
            expected="the file with its size",
            found="nothing, or another size",
            hint="--replace writes the tree anew",
        )
    return manifest


def _gone(fs: Fs, root: Path, manifest: Manifest) -> str | None:
    return next((leaf.path for leaf in manifest.files if bytes_of(fs, root / leaf.path) != leaf.bytes), None)


def publish(fs: Fs, target: ExportTarget) -> None:
    """Puts the staged tree into place, durably, and removes a tree that was there.

    LockLostError: another export has just put that one there, and is not done.
    """
    with _replaced(fs, target) as replacing:
        with fs.during("export-publish"):
            exchanged = replacing and fs.exchange(target.stage, target.path)
            if not exchanged:
                if replacing:
                    fs.rename(target.path, target.aside)
                    fs.step("export-aside")
                fs.rename(target.stage, target.path)
            fs.sync_dirs([target.path.parent])
        with fs.during("export-clean"):
            fs.remove_tree(target.stage if exchanged else target.aside)


@contextmanager
def _replaced(fs: Fs, target: ExportTarget) -> Iterator[bool]:
    """Holds the tree that is replaced, if there is one: in the place of the staging directory it is nobody else's."""
    if not fs.names(target.path):
        yield False
        return
    lock = fs.lock(target.path, make=False)
    if lock is None:
        raise _running(target)
    with lock:
        yield True


def _running(target: ExportTarget) -> LockLostError:
    return LockLostError(
        "another export into this directory is running",
        where=target.path,
        hint="wait until it ends, then run this again",
    )
