"""Which files of a feed come next: a planner without Spark, over a file system and a clock that are handed in.

Files are taken once, oldest first by (mtime, path), as soon as they are seen; so a producer writes under a hidden
name and renames. What was taken is remembered in a ``FileWindow`` that is bounded by ``max_file_age``: a file older
than its horizon that is not remembered is never taken, and if it only just came (its inode changed after the horizon)
it is reported in ``Plan.older``. A directory is listed again only when its own modification time moved, so dated
directories of the past cost one ``stat`` each. At each plan a few remembered files are looked at again; one that is
not what was taken stops the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ingest.source_file import changed
from ingest.spec import FeedSpec, Limit
from store.epochs.positions import FileWindow
from store.epochs.state import FileId
from store.errors import FeedError, RetryableFeedError
from store.fs import Fs, Stat

RECHECKED = 64  # remembered files that one plan looks at again
SETTLED_NS = 2_000_000_000  # a directory changed this recently may change again within one tick of its mtime
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Plan:
    """Files of one batch by (mtime, path), what is left after it, and newcomers that are too old to be taken."""

    files: tuple[FileId, ...]
    waiting_files: int
    waiting_bytes: int
    older: tuple[FileId, ...] = ()


@dataclass(slots=True)
class _Directory:
    """What the last listing of a directory showed. ``files`` is used once, so that no history of names is held."""

    mtime_ns: int
    settled: bool
    directories: list[str]
    files: dict[str, Stat] = field(default_factory=dict)


class FilePlanner:
    """Plans batches of one files feed. ``taken`` is what the commit log remembers, with its horizon.

    ``row_bytes`` tells how many bytes of a file make a row, for limits in rows.
    """

    def __init__(
        self,
        fs: Fs,
        feed: FeedSpec,
        taken: FileWindow,
        clock: Callable[[], float],
        *,
        row_bytes: Callable[[FileId], float] | None = None,
    ) -> None:
        self._fs = fs
        self._feed = feed
        self._clock = clock
        self._row_bytes = row_bytes
        self._window = FileWindow(taken, taken.horizon)
        self._pending: dict[str, FileId] = {}
        self._directories: dict[Path, _Directory] = {}
        self._listed: dict[Path, _Directory] = {}
        self._reported: dict[str, tuple[FileId, int]] = {}  # with the time of the inode's last change
        self._older: list[FileId] = []
        self._recheck = deque(file.path for file in self._window)
        self._frozen = False

    def plan(self, limit: Limit | None = None) -> Plan:
        """The next batch within ``limit`` (default: that of the feed); at least one file if any is waiting.

        Raises PositionGapError naming both sizes when a file that was taken is no longer what it was.
        """
        if not self._frozen:
            self.look()
        self._check_remembered()
        chosen = self._admit(self._feed.max_per_trigger if limit is None else limit)
        self.take(chosen)
        left = self._pending.values()
        older, self._older = tuple(self._older), []
        return Plan(tuple(chosen), len(left), sum(file.size for file in left), older)

    def freeze(self) -> None:
        """From here on only files that are there now are planned."""
        self.look()
        self._frozen = True

    def waiting(self) -> tuple[int, int]:
        """Files and bytes that are seen and not planned."""
        return len(self._pending), sum(file.size for file in self._pending.values())

    def take(self, files: Iterable[FileId]) -> None:
        """Remembers files as planned; harmless for those that are remembered already."""
        fresh = [file for file in files if self._window.status(file) == "fresh"]
        age_ns = round(self._feed.max_file_age_s * 1e9)
        horizon = self._window.next_horizon(fresh, round(self._clock() * 1e9), age_ns)
        self._window.take(fresh, horizon)
        for file in fresh:
            self._pending.pop(file.path, None)
            self._recheck.append(file.path)

    def look(self) -> None:
        """Looks for files that are new since the last look."""
        now_ns = round(self._clock() * 1e9)
        root, parts = split_pattern(self._feed.path)
        found = self._fs.stat(root)
        if found is None:
            raise FeedError(
                "the feed's directory does not exist",
                where=root,
                expected="a directory",
                found="nothing",
                hint="make it, or correct feed.path; it may be empty",
            )
        if not parts and not found.is_dir:
            self._meet(root, found)
            return
        self._walk(root, parts or ("*",), now_ns)
        self._listed.clear()
        horizon = self._window.horizon
        self._reported = {path: row for path, row in self._reported.items() if row[1] >= horizon}

    def _walk(self, directory: Path, parts: tuple[str, ...], now_ns: int) -> None:
        listing, fresh = self._listing(directory, now_ns)
        if listing is None:
            return
        if parts[0] == "**":
            for name in listing.directories:
                self._walk(directory / name, parts, now_ns)
            parts = parts[1:] or ("*",)
        self._match(directory, listing, parts, fresh, now_ns)

    def _match(self, directory: Path, listing: _Directory, parts: tuple[str, ...], fresh: bool, now_ns: int) -> None:
        if len(parts) > 1:
            for name in listing.directories:
                if fnmatchcase(name, parts[0]):
                    self._walk(directory / name, parts[1:], now_ns)
            return
        if fresh:
            for name, found in listing.files.items():
                if fnmatchcase(name, parts[0]):
                    self._meet(directory / name, found)

    def _listing(self, directory: Path, now_ns: int) -> tuple[_Directory | None, bool]:
        """Names in a directory, and whether they were read just now."""
        found = self._fs.stat(directory)
        if found is None or not found.is_dir:
            self._directories.pop(directory, None)
            return None, False
        if directory in self._listed:  # a pattern with ** may come here twice
            return self._listed[directory], True
        known = self._directories.get(directory)
        if known is not None and known.settled and known.mtime_ns == found.mtime_ns:
            return known, False
        listing = _Directory(found.mtime_ns, now_ns - found.mtime_ns > SETTLED_NS, [])
        try:
            names = self._fs.names(directory)
        except OSError as error:
            raise RetryableFeedError(
                "a directory of the feed cannot be listed", where=directory, found=error, hint="check its permissions"
            ) from error
        for name in names:
            if name.startswith((".", "_")):
                continue
            _check_text(directory, name)
            path = directory / name
            if self._window.known(str(path)) is not None:
                continue
            entry = self._fs.stat(path)
            if entry is None:
                continue
            if entry.is_dir:
                listing.directories.append(name)
            else:
                listing.files[name] = entry
        self._listed[directory] = listing
        self._directories[directory] = replace(listing, files={})
        return listing, True

    def _meet(self, path: Path, found: Stat) -> None:
        file = FileId(str(path), found.size, found.mtime_ns)
        status = self._window.status(file)
        if status == "taken":
            return
        if status == "fresh":
            self._pending[file.path] = file
        elif found.ctime_ns >= self._window.horizon and self._reported.get(file.path, (None, 0))[0] != file:
            self._reported[file.path] = (file, found.ctime_ns)
            self._older.append(file)

    def _check_remembered(self) -> None:
        for _ in range(min(RECHECKED, len(self._recheck))):
            path = self._recheck.popleft()
            known = self._window.known(path)
            if known is None:
                continue  # forgotten by age
            now = self._fs.stat(Path(path))
            if now is not None and (now.size, now.mtime_ns) != (known.size, known.mtime_ns):
                raise changed(known, now.size, now.mtime_ns)
            self._recheck.append(path)

    def _admit(self, limit: Limit) -> list[FileId]:
        chosen: list[FileId] = []
        size, rows = 0, 0.0
        for listed in sorted(self._pending.values(), key=lambda file: (file.mtime_ns, file.path)):
            file = self._again(listed)
            if file is None:
                continue
            size += file.size
            if limit.rows is not None and self._row_bytes is not None:
                rows += file.size / max(self._row_bytes(file), 1e-9)
            full = (
                (limit.files is not None and len(chosen) >= limit.files)
                or (limit.bytes is not None and size > limit.bytes)
                or (limit.rows is not None and rows > limit.rows)
            )
            if full and chosen:
                break
            chosen.append(file)
        return sorted(chosen, key=lambda file: (file.mtime_ns, file.path))

    def _again(self, file: FileId) -> FileId | None:
        """A waiting file as it is now; it may have grown since it was listed, or gone."""
        found = self._fs.stat(Path(file.path))
        if found is None:
            del self._pending[file.path]
            return None
        now = FileId(file.path, found.size, found.mtime_ns)
        self._pending[file.path] = now
        return now


def split_pattern(path: str) -> tuple[Path, tuple[str, ...]]:
    """The directory above the first wildcard, and the parts from there on (none: a plain path)."""
    parts = Path(path).parts
    first = next((place for place, part in enumerate(parts) if _MAGIC & set(part)), len(parts))
    return Path(*parts[:first]) if first else Path(), tuple(parts[first:])


def _check_text(directory: Path, name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise FeedError(
            "a feed file has a name that is not UTF-8",
            where=directory,
            found=ascii(name),
            hint="rename it, or hide it with a leading dot; positions are kept by name",
        ) from None
