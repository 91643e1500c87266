"""Roots that are never written: snapshots, mirrors, and roots of a newer form.

``Fs`` asks here before each change of the disk. So no command, call, worker or log table can forget to. Who opens a
root to write it asks first, which ends a command before its work, and a dry run like the command itself.

Who reads a root asks whether it is one: a directory of something else has no table, and nothing of it is sound.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from sparkhaven.store.errors import NotPermittedError, SettingsError, TableNotFoundError

SNAPSHOT_MANIFEST = "snapshot.json"  # the last file of a snapshot that is written, the first that is removed
FORM = ".sparkhaven-form"  # the number of the form of a root; without it, 1
NEWEST_FORM = 1
REMEMBERED = 1 << 16  # directories: a table has ten thousands
TREES = "Intraday", "Systems", "Schemas", "Users"  # of a database: a file of another program may be called as ours


def is_database(root: Path) -> bool:
    """Whether a directory has anything of a database."""
    return any(os.path.isdir(f"{root}/{name}") for name in TREES)


def require_database(root: Path, hint: str) -> None:
    """A root may be read; an empty directory is a database without tables. ``hint``: where the user has named it.

    TableNotFoundError: there is no such directory, or it holds something else. Names with a dot, and ``lost+found``
    of a new volume, do not count.
    """
    if not os.path.isdir(root):
        raise TableNotFoundError("no such database root", where=root, hint=hint)
    if not is_database(root) and any(name[:1] != "." and name != "lost+found" for name in os.listdir(root)):
        raise TableNotFoundError(
            "the directory is no database",
            where=root,
            expected=f"one of {', '.join(TREES)}",
            found="none of them",
            hint=hint,
        )


def is_copy(root: Path) -> bool:
    """Whether a root is a snapshot, or a mirror."""
    return os.path.lexists(f"{root}/{SNAPSHOT_MANIFEST}")


def require_writable(root: Path) -> None:
    """The root of a database may be written; it may not exist yet.

    SettingsError: it is a snapshot or a mirror, in one, or of a newer form. NotPermittedError: it is mounted read-only.
    """
    absolute = os.path.abspath(root)
    _require_writable.cache_clear()  # another process may have changed what it is
    if is_copy(root):
        raise _copied(absolute)
    _require_writable(absolute)
    held = Path(absolute)
    while not held.exists():
        held = held.parent
    if os.statvfs(held).f_flag & os.ST_RDONLY:
        raise NotPermittedError(
            "the root is mounted without write access",
            where=absolute,
            expected="option rw of the mount",
            found="ro",
            hint="mount it with the option rw, or name another root. Reading commands work",
        )


def in_copy(path: Path) -> bool:
    """Whether a file is in a snapshot. A later one may share it, and have added bytes."""
    return any(is_copy(directory) and is_database(directory) for directory in path.parents)


def is_writable(root: Path) -> bool:
    """Whether ``require_writable`` passes."""
    try:
        require_writable(root)
    except (SettingsError, NotPermittedError):
        return False
    return True


def refuse_change(path: str | os.PathLike[str]) -> None:
    """Before an entry of a directory changes. SettingsError: it is below a root that is never written."""
    directory, slash, name = os.fspath(path).rpartition("/")
    if name == SNAPSHOT_MANIFEST:  # a copy begins, or ends
        _require_writable.cache_clear()
        return
    if directory[:1] != "/":
        directory = os.path.abspath(directory) if directory or not slash else ""
    _require_writable(directory)


@lru_cache(REMEMBERED)  # what raises is not remembered
def _require_writable(directory: str) -> None:
    """Of one directory and all above it; ``""`` is the root of the file system."""
    if os.path.lexists(f"{directory}/{SNAPSHOT_MANIFEST}") and is_database(Path(directory or "/")):
        raise _copied(directory)
    try:
        with open(f"{directory}/{FORM}", encoding="ascii", errors="replace") as file:
            _require_known(directory, file.read(20).strip())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    if directory:
        _require_writable(directory.rpartition("/")[0])


def _copied(root: str) -> SettingsError:
    kept = Path(os.path.realpath(root)).parent.name
    is_mirror = kept.startswith(".") and kept.endswith(".mirror")
    kind = "mirror" if is_mirror else "snapshot"
    return SettingsError(
        f"the root is a {kind}, which is not written",
        where=f"{root}/{SNAPSHOT_MANIFEST}",
        expected="a database root",
        found="a mirror" if is_mirror else "a snapshot",
        hint=f"run it on the root that was copied, or put its tables into one: `sparkhaven --root ROOT restore {root}`",
    )


def _require_known(root: str, form: str) -> None:
    if form.isdecimal() and int(form) <= NEWEST_FORM:
        return
    raise SettingsError(
        "the root is of a newer form, which this release does not write",
        where=f"{root}/{FORM}",
        expected=f"form {NEWEST_FORM}",
        found=f"form {form}" if form.isdecimal() else repr(form),
        hint="install the release that has made it, or a later one",
    )
