"""Files of a snapshot as they are written: committed bytes copied, files of history linked, all synced at the end.

A file that an earlier snapshot has too is a second name of its file there. One that has grown since gets a second name,
and its new bytes behind: each snapshot reads what its own manifest names of it. Snapshots share such files with each
other, never with a database that is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.epochs.files.published_size import data_start
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import COPY_CHUNK
from sparkhaven.store.layout import Layout

KnownFiles = Mapping[str, tuple[int, int | None]]  # path below the snapshot -> bytes, CRC-32 behind the prefix or None
QUARANTINES = Layout(Path()).quarantine("").name
TELL_EACH = 1 << 30  # bytes


@dataclass(frozen=True, slots=True)
class Previous:
    """An earlier snapshot, and its files of the same table."""

    directory: Path
    files: KnownFiles


NONE = Previous(Path(), {})


class FileCopies:
    """Writes files of one table below ``top`` and keeps what the manifest says of them.

    ``home``: where ``top`` is to be once all is written.
    ``copied``, ``linked``: bytes so far. ``on_copied`` is called after each GiB, with all bytes so far. ``fresh``: the
    directories with files that the earlier snapshot does not have.
    """

    def __init__(
        self,
        fs: Fs,
        top: Path,
        home: Path,
        previous: Previous = NONE,
        on_copied: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.fs, self.top, self.home = fs, top, home
        self._previous, self._on_copied = previous, on_copied
        self.files: dict[str, tuple[int, int | None]] = {}
        self.linked = self.copied = 0
        self.fresh: set[Path] = set()
        self._written: list[Path] = []

    def write(self, path: Path, data: bytes) -> None:
        """A file of these bytes."""
        self._clear(path)
        self.fs.write_new(path, data)
        self._new(path)
        self._count(len(data))
        self._note(path, len(data), zlib.crc32(data[data_start(path.name) :]))

    def has(self, path: Path, data: bytes) -> bool:
        """Whether the earlier snapshot has a file of these bytes."""
        return self._known(path) == (len(data), zlib.crc32(data[data_start(path.name) :]))

    def commit(self, source: Path, path: Path, size: int, crc: int | None) -> None:
        """The first ``size`` bytes of a file that may grow; ``crc`` of those behind the prefix, None: not known.

        CorruptFileError: it has other bytes, or fewer.
        """
        self._clear(path)
        if not self._continued(source, path, size, crc):
            self._clear(path)
            self.fs.write_new(path, b"")
            copied = self._append(source, path, 0, size, 0)
            if crc is not None and copied != crc:
                raise other_content(source, f"CRC-32 {crc:08x}", f"CRC-32 {copied:08x}")
            self._new(path)
        self._note(path, size, crc)

    def link(self, source: Path, path: Path, *, unchanged: bool = False) -> None:
        """A second name of a file that never changes in place; a copy where the file system has no links.

        ``unchanged``: the earlier snapshot has the same file.
        """
        stat = self.fs.stat(source)
        if stat is None:
            raise FileNotFoundError(source)
        self._clear(path)
        if unchanged and self._known(path) == (stat.size, None) and self.fs.hard_link(self._earlier(path), path):
            self.linked += stat.size
        elif self.fs.hard_link(source, path):
            self.linked += stat.size
            self._new(path)  # its writer may not have synced it yet
        else:
            self.commit(source, path, stat.size, None)
        self._note(path, stat.size, None)

    def drop(self) -> None:
        """Removes the files of an attempt that failed, with the directories that are empty then.

        Files of quarantines stay: another table may have them, too.
        """
        for name in self.files.keys() - quarantined(self.files):
            path = self.top / name
            self.fs.unlink(path)
            while (path := path.parent) != self.top and self.fs.rmdir(path):
                pass

    def sync(self) -> None:
        self.fs.sync(self._written)
        self.fs.release(self._written)  # a reader of the copy may never come
        paths = (self.top / name for name in self.files)
        self.fs.sync_dirs(sorted({parent for path in paths for parent in path.parents if path_in(parent, self.top)}))

    def _continued(self, source: Path, path: Path, size: int, crc: int | None) -> bool:
        """Links the file of the earlier snapshot and appends what is new; False where it is not a beginning of this."""
        known = self._known(path)
        if known is None or known[1] is None or crc is None or known[0] > size:
            return False
        earlier = self._earlier(path)
        stat, grown = self.fs.stat(earlier), size > known[0]
        if stat is None or stat.size < known[0] or not (grown or known[1] == crc):
            return False  # damaged, or other bytes
        if stat.size > known[0] and stat.links > 1:
            return False  # another snapshot continues it
        if not self.fs.hard_link(earlier, path):
            return False
        self.linked += known[0]
        if stat.size > size:
            self.fs.truncate(path, size)  # a snapshot that was killed has continued it
        if not grown:
            return True
        self._new(path)
        return self._append(source, path, known[0], size, known[1]) == crc

    def _append(self, source: Path, path: Path, offset: int, size: int, crc: int) -> int:
        """Copies bytes from ``offset`` on; returns ``crc`` continued by those behind the prefix."""
        start = data_start(path.name)
        while offset < size:
            data = self.fs.read_range(source, offset, min(COPY_CHUNK, size - offset))
            self.fs.write_at(path, offset, data)
            crc = zlib.crc32(data[max(0, start - offset) :], crc)
            offset += len(data)
            self._count(len(data))
        return crc

    def _new(self, path: Path) -> None:
        self._written.append(path)
        self.fresh.add(path.parent)

    def _count(self, size: int) -> None:
        before = self.copied // TELL_EACH
        self.copied += size
        if self.copied // TELL_EACH > before:
            self._on_copied(self.copied)

    def _known(self, path: Path) -> tuple[int, int | None] | None:
        return self._previous.files.get(str(path.relative_to(self.top)))

    def _earlier(self, path: Path) -> Path:
        return self._previous.directory / path.relative_to(self.top)

    def _clear(self, path: Path) -> None:
        """Makes the directory, and removes a name of an earlier attempt: what it shares is not written into."""
        self.fs.mkdirs(path.parent)
        self.fs.unlink(path)

    def _note(self, path: Path, size: int, crc: int | None) -> None:
        self.files[str(path.relative_to(self.top))] = size, crc


def quarantined(paths: Iterable[str]) -> set[str]:
    """Those of paths below a snapshot that are of quarantines."""
    return {path for path in paths if path.startswith(f"{QUARANTINES}/")}


def copy_bytes(fs: Fs, source: Path, path: Path) -> None:
    """A whole file, not synced."""
    stat = fs.stat(source)
    fs.write_new(path, b"")
    for offset in range(0, stat.size if stat else 0, COPY_CHUNK):
        size = min(COPY_CHUNK, stat.size - offset) if stat else 0
        fs.write_at(path, offset, fs.read_range(source, offset, size))


def path_in(path: Path, top: Path) -> bool:
    return top in (path, *path.parents)


def files_below(fs: Fs, directory: Path) -> Iterator[Path]:
    for name, stat in fs.entries(directory):
        if stat.is_dir:
            yield from files_below(fs, directory / name)
        else:
            yield directory / name


def other_content(path: Path, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(
        "file has other content than was committed",
        where=path,
        expected=expected,
        found=found,
        hint="`sparkhaven verify --deep` names what is damaged",
    )
