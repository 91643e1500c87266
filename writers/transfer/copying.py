"""The one copy of files: copied or linked, synced, read back; and the directory that is published by one rename.

1. *copy*: checksums are made of the bytes as they are copied, and compared where a record has them. A damaged
   origin ends it here;
2. *sync*: files, then directories, the deepest first, under a guard that was opened before the first write: it
   reports write errors of the whole copy;
3. *verify*: files are read from the disk again. After the sync: only then is it the disk that is read;
4. *publish*: one rename, then a sync of the directory above. Last: a kill before leaves no copy that looks complete.

A file is never copied by sharing blocks of the disk: after a failed sync they may be older than what readers see.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from sparkhaven.store.epochs.files.published_size import data_start
from sparkhaven.store.errors import CorruptFileError, LockLostError, SparkhavenError
from sparkhaven.store.io.fs import Fs, SyncGuard, files_below
from sparkhaven.store.io.open_files import COPY_CHUNK
from sparkhaven.store.io.read_only_roots import SNAPSHOT_MANIFEST
from sparkhaven.store.native.checked_columns import checksum, crc32
from sparkhaven.store.scan.checksums import file_state
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState

Files = Mapping[str, FileState]
"""Size and CRC-32 of files by their path below a directory, as a manifest has them."""

TELL_EACH = 1 << 30  # bytes


class CopyProgress:
    """Reports the bytes that were copied of each date or table after each GiB; threads may count."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report, self._lock = report, Lock()
        self._copied: dict[str, int] = {}

    def count(self, name: str, size: int) -> None:
        """So many more bytes of a date or table."""
        with self._lock:
            before = self._copied.get(name, 0) // TELL_EACH
            self._copied[name] = self._copied.get(name, 0) + size
            if self._copied[name] // TELL_EACH > before:
                self._report(f"{name}: {self._copied[name] / TELL_EACH:.0f} GiB copied")


@dataclass(frozen=True, slots=True)
class Previous:
    """An earlier snapshot, and its files of the same table."""

    directory: Path
    files: Files


NONE = Previous(Path(), {})


class FileCopies:
    """Files below ``top`` as they are copied; ``files`` is what a manifest says of them.

    ``home``: where ``top`` is to be once all is written. ``previous``: a file that it has, too, is a second name of
    that; one that has grown since gets a second name, and its new bytes behind. ``copied``, ``linked``: bytes so far.
    ``fresh``: the directories with files that ``previous`` does not have.
    """

    def __init__(
        self,
        fs: Fs,
        top: Path,
        on_copied: Callable[[int], object] = lambda _: None,
        *,
        home: Path | None = None,
        previous: Previous = NONE,
    ) -> None:
        self.fs, self.top, self.home = fs, top, home or top
        self._previous, self._on_copied = previous, on_copied
        self.files: dict[str, FileState] = {}
        self.linked = self.copied = 0
        self.fresh: set[Path] = set()
        self._written: list[Path] = []

    # --- copy ------------------------------------------------------------------------------------------

    def write(self, path: Path, data: bytes) -> None:
        """A file of these bytes; its checksum is as that of ``commit``."""
        self._clear(path)
        self.fs.write_new(path, data)
        self._new(path)
        self._count(len(data))
        self._note(path, FileState(len(data), zlib.crc32(data[data_start(path.name) :])))

    def has(self, path: Path, data: bytes) -> bool:
        """Whether the earlier snapshot has a file of these bytes."""
        return self._known(path) == FileState(len(data), zlib.crc32(data[data_start(path.name) :]))

    def commit(self, source: Path, path: Path, state: FileState) -> None:
        """The first bytes of a file that may grow; the checksum is of those behind the prefix, or ``UNKNOWN``.

        CorruptFileError: it has other bytes, or fewer.
        """
        self._clear(path)
        if not self._continued(source, path, state):
            self._clear(path)
            self.fs.write_new(path, b"")
            crc = self._append(source, path, 0, state.size, 0, data_start(path.name))
            if state.crc not in (UNKNOWN, crc):
                raise other_content(source, f"CRC-32 {state.crc:08x}", f"CRC-32 {crc:08x}")
            self._new(path)
        self._note(path, state)

    def link(self, source: Path, path: Path, *, unchanged: bool = False) -> None:
        """A second name of a file that never changes in place; a copy where the file system has no links.

        ``unchanged``: the earlier snapshot has the same file. Its bytes are not read.
        """
        stat = self.fs.stat(source)
        if stat is None:
            raise FileNotFoundError(source)
        state = FileState(stat.size, UNKNOWN)
        self._clear(path)
        if unchanged and self._known(path) == state and self.fs.hard_link(self._earlier(path), path):
            self.linked += stat.size
        elif self.fs.hard_link(source, path):
            self.linked += stat.size
            self._new(path)  # its writer may not have synced it yet
        else:
            self.commit(source, path, state)
        self._note(path, state)

    def tree(self, source: Path, target: Path, *, link: bool = False) -> None:
        """All files below a directory, or one file, each with the checksum of the whole.

        ``link``: second names where the file system has them. FileNotFoundError: there is nothing.
        """
        names = list(files_below(self.fs, source))
        if not names:
            raise FileNotFoundError(2, "No such location", str(source))
        for name in names:
            path = target / name.relative_to(source)
            self._clear(path)
            if link and self.fs.hard_link(name, path):
                state = file_state(self.fs, name)
                self.linked += state.size
                self._on_copied(state.size)
            else:
                stat = self.fs.stat(name)
                size = stat.size if stat else 0
                self.fs.write_new(path, b"")
                state = FileState(size, self._append(name, path, 0, size, 0, 0))
            self._new(path)
            self._note(path, state)

    def _continued(self, source: Path, path: Path, state: FileState) -> bool:
        """Links the file of the earlier snapshot and appends what is new; False where it is not a beginning of this."""
        known = self._known(path)
        if known is None or UNKNOWN in (known.crc, state.crc) or known.size > state.size:
            return False
        earlier = self._earlier(path)
        stat, grown = self.fs.stat(earlier), state.size > known.size
        if stat is None or stat.size < known.size or not (grown or known.crc == state.crc):
            return False  # damaged, or other bytes
        if stat.size > known.size and stat.links > 1:
            return False  # another snapshot continues it
        if not self.fs.hard_link(earlier, path):
            return False
        self.linked += known.size
        if stat.size > state.size:
            self.fs.truncate(path, state.size)  # a snapshot that was killed has continued it
        if not grown:
            return True
        self._new(path)
        return self._append(source, path, known.size, state.size, known.crc, data_start(path.name)) == state.crc

    def _append(self, source: Path, path: Path, offset: int, size: int, crc: int, start: int) -> int:
        """Copies bytes from ``offset`` on; returns ``crc`` continued by those from ``start`` on."""
        while offset < size:
            data = self.fs.read_range(source, offset, min(COPY_CHUNK, size - offset))
            self.fs.write_at(path, offset, data)
            crc = crc32(memoryview(data)[max(0, start - offset) :], crc)
            offset += len(data)
            self._count(len(data))
        return crc

    def _new(self, path: Path) -> None:
        self._written.append(path)
        self.fresh.add(path.parent)

    def _count(self, size: int) -> None:
        self.copied += size
        self._on_copied(size)

    def _known(self, path: Path) -> FileState | None:
        return self._previous.files.get(str(path.relative_to(self.top)))

    def _earlier(self, path: Path) -> Path:
        return self._previous.directory / path.relative_to(self.top)

    def _clear(self, path: Path) -> None:
        """Makes the directory, and removes a name of an earlier attempt: what it shares is not written into."""
        self.fs.mkdirs(path.parent)
        self.fs.unlink(path)

    def _note(self, path: Path, state: FileState) -> None:
        self.files[str(path.relative_to(self.top))] = state

    # --- sync, verify, undo ----------------------------------------------------------------------------

    def sync(self, guard: SyncGuard) -> None:
        """Makes all that was written durable, with the directories from ``top`` on."""
        parents = {parent for name in self.files for parent in (self.top / name).parents if path_in(parent, self.top)}
        guard.sync(self._written, sorted(parents, key=lambda path: -len(path.parts)))
        self.fs.release(self._written)  # a reader of the copy may never come

    def read_back(self) -> None:
        """Raises as ``require_files``."""
        require_files(self.fs, self.top, self.files)

    def drop(self, kept: Callable[[str], bool]) -> None:
        """Removes the files of an attempt that failed, but those that are ``kept``, and directories that are empty."""
        for name in self.files:
            if kept(name):
                continue
            path = self.top / name
            self.fs.unlink(path)
            while (path := path.parent) != self.top and self.fs.rmdir(path):
                pass


def require_files(fs: Fs, directory: Path, files: Files) -> None:
    """Reads whole files from the disk. CorruptFileError: one is missing, or has another size or checksum."""
    fs.drop_cached(directory / name for name in files if fs.stat(directory / name) is not None)
    for name, state in files.items():
        stat = fs.stat(directory / name)
        read = None if stat is None else FileState(stat.size, checksum(fs, directory / name, 0, stat.size))
        if read != state:
            raise CorruptFileError(
                "file has other content than was written",
                where=directory / name,
                expected=f"{state.size} bytes, CRC-32 {state.crc:08x}",
                found="nothing" if read is None else f"{read.size} bytes, CRC-32 {read.crc:08x}",
                hint="nothing was changed. Look at the disk of this path, then run it again",
            )


def other_content(path: Path, expected: object, found: object) -> CorruptFileError:
    """The error for a file that is to be copied."""
    return CorruptFileError(
        "file has other content than was committed",
        where=path,
        expected=expected,
        found=found,
    )


def path_in(path: Path, top: Path) -> bool:
    """Whether a path is ``top``, or below it."""
    return top in (path, *path.parents)


# --- publish -------------------------------------------------------------------------------------------


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


def clear(fs: Fs, path: Path) -> None:
    """Removes a file, or a directory with all below it."""
    stat = fs.stat(path, follow=False)
    if stat is not None and stat.is_dir:
        fs.remove_tree(path)
    else:
        fs.unlink(path)


@contextmanager
def staged(fs: Fs, stage: Path, what: str) -> Iterator[None]:
    """Holds ``stage``, an empty directory beside the one that it is to become. What is left of it at the end goes.

    So does, at the beginning, what a killed command has left. LockLostError, ``what`` is running: another process has
    the directory.
    """
    fs.mkdirs(stage)
    with locked_directory(fs, stage, what):
        fs.unlink(stage / SNAPSHOT_MANIFEST)  # with it the directory is a copy, which is not written
        for name in fs.names(stage):
            clear(fs, stage / name)
        ours = fs.stat(stage)
        try:
            yield
        except (SparkhavenError, OSError):
            with suppress(SparkhavenError, OSError):  # the error itself says more
                there = fs.stat(stage)
                if ours is not None and there is not None and there.inode == ours.inode:  # not exchanged
                    fs.unlink(stage / SNAPSHOT_MANIFEST)
                    fs.remove_tree(stage)
            raise
        fs.remove_tree(stage)


def publish(fs: Fs, stage: Path, path: Path) -> None:
    """Renames a synced directory to its place, durably."""
    fs.rename(stage, path)
    fs.sync_dirs([path.parent])
