"""What lies in the directories of a feed: files that its pattern names, and by name whatever it does not take.

A directory is listed again only when its own modification time moved, so dated directories of the past cost one
``stat`` each. Of each listed directory the names are remembered as numbers of 8 bytes, so that a file which came after
the first look is known as a newcomer, whatever its times say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from store.errors import FeedError, RetryableFeedError, SparkhavenError
from store.io.fs import Fs, Stat
from store.types.frozen import frozen

SETTLED_NS = 2_000_000_000  # a directory changed this recently may change again within one tick of its mtime
SHOWN = 5  # names of each kind that a report has; all are counted
HIDDEN, UNFINISHED, OTHER, NO_FILE = "hidden", "unfinished", "other name", "no regular file"
_MAGIC = frozenset("*?[")


@dataclass(slots=True)
class Passed:
    """What is not taken: how many by reason, and the first paths of each."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, path: str, count: int = 1) -> None:
        """One more."""
        self.counts[reason] += count
        shown = self.names.setdefault(reason, [])
        if len(shown) < SHOWN:
            shown.append(path)

    def merge(self, other: Passed) -> None:
        """Those of another directory."""
        self.counts.update(other.counts)
        for reason, names in other.names.items():
            shown = self.names.setdefault(reason, [])
            shown.extend(names[: SHOWN - len(shown)])

    def to_json(self) -> dict[str, dict[str, object]]:
        """``{reason: {"count": n, "first": [path, ...]}}``."""
        return {reason: {"count": count, "first": self.names[reason]} for reason, count in sorted(self.counts.items())}


@frozen
class Found:
    """A file of the feed. ``came``: it was not there at an earlier look of this process; ``again``: it was."""

    path: Path
    stat: Stat
    came: bool = False
    again: bool = False


@dataclass(slots=True)
class _Directory:
    """What the last listing of a directory showed. ``files`` is used once, so that no history of names is held."""

    mtime_ns: int
    settled: bool
    seen: npt.NDArray[np.int64]
    directories: list[str] = field(default_factory=list)
    files: dict[str, Found] = field(default_factory=dict)
    passed: Passed = field(default_factory=Passed)

    def has(self, name: str) -> bool:
        """Whether the directory had a file or directory of this name."""
        number = hash(name)
        place = int(np.searchsorted(self.seen, number))
        return place < len(self.seen) and int(self.seen[place]) == number


class FeedListing:
    """Files below ``path``, a plain path or a pattern, that are new or not ``known`` since the last look.

    Names that begin with a dot or an underscore, and names that end as one of ``unfinished`` does (unless the pattern
    itself ends so), are passed over.
    """

    def __init__(self, fs: Fs, path: str, unfinished: tuple[str, ...], known: Callable[[str], bool]) -> None:
        self._fs, self._known = fs, known
        self.root, self._parts = split_pattern(path)
        last = Path(path).name.lower()
        self._unfinished = tuple(end.lower() for end in unfinished if not last.endswith(end.lower()))
        self._directories: dict[Path, _Directory] = {}
        self._listed: dict[Path, _Directory] = {}
        self._looked = False

    def look(self, now_ns: int) -> Iterator[Found]:
        """The files of directories that changed since the last look.

        RetryableFeedError if the root is away: ``exists`` asks beforehand.
        """
        found = self._fs.stat(self.root)
        if found is None:
            raise missing_directory(self.root, RetryableFeedError)
        if not self._parts and not found.is_dir:
            yield Found(self.root, found, again=self._looked)
        else:
            yield from self._walk(self.root, self._parts or ("*",), now_ns)
        for path in self._listed:
            self._directories[path].files = {}
        self._listed.clear()
        self._looked = True

    def exists(self) -> bool:
        """Whether the directory above the first wildcard is there."""
        return self._fs.stat(self.root) is not None

    def passed(self) -> Passed:
        """What lies in the directories and is not taken, by the newest listing of each."""
        whole = Passed()
        for directory in self._directories.values():
            whole.merge(directory.passed)
        return whole

    def _walk(self, directory: Path, parts: tuple[str, ...], now_ns: int) -> Iterator[Found]:
        listing, fresh = self._listing(directory, now_ns)
        if listing is None:
            return
        if parts[0] == "**":
            for name in listing.directories:
                yield from self._walk(directory / name, parts, now_ns)
            parts = parts[1:] or ("*",)
        if len(parts) > 1:
            for name in listing.directories:
                if fnmatchcase(name, parts[0]):
                    yield from self._walk(directory / name, parts[1:], now_ns)
        elif fresh:
            for name, found in listing.files.items():
                if fnmatchcase(name, parts[0]):
                    yield found
                elif "**" not in self._parts:  # which comes here more than once
                    listing.passed.add(OTHER, str(found.path))

    def _listing(self, directory: Path, now_ns: int) -> tuple[_Directory | None, bool]:
        """Names in a directory, and whether they were read just now."""
        found = self._fs.stat(directory)
        if found is None or not found.is_dir:
            self._directories.pop(directory, None)
            return None, False
        if directory in self._listed:  # a pattern with ** may come here twice
            return self._listed[directory], True
        before = self._directories.get(directory)
        if before is not None and before.settled and before.mtime_ns == found.mtime_ns:
            return before, False
        names = self._names(directory)
        seen = np.fromiter(map(hash, names), np.int64, len(names))
        seen.sort()
        listing = _Directory(found.mtime_ns, now_ns - found.mtime_ns > SETTLED_NS, seen)
        for name in names:
            self._sort_in(directory, name, listing, before)
        self._listed[directory] = self._directories[directory] = listing
        return listing, True

    def _sort_in(self, directory: Path, name: str, listing: _Directory, before: _Directory | None) -> None:
        path = directory / name
        if name.startswith((".", "_")):
            listing.passed.add(HIDDEN, str(path))
            return
        _check_text(directory, name)
        if self._known(str(path)):
            return
        found = self._fs.stat(path)
        if found is not None and found.is_dir:
            listing.directories.append(name)
        elif self._unfinished and name.lower().endswith(self._unfinished):
            listing.passed.add(UNFINISHED, str(path))
        elif found is None or not found.is_file:  # a link that leads nowhere, a pipe; or it has just gone
            listing.passed.add(NO_FILE, str(path))
        else:
            again = before is not None and before.has(name)
            listing.files[name] = Found(path, found, came=self._looked and not again, again=again)

    def _names(self, directory: Path) -> list[str]:
        try:
            return self._fs.names(directory)
        except OSError as error:
            raise RetryableFeedError(
                "a directory of the feed cannot be listed", where=directory, found=error, hint="check its permissions"
            ) from error


def missing_directory(root: Path, kind: type[SparkhavenError]) -> SparkhavenError:
    """The error for a feed whose directory is not there."""
    return kind(
        "the feed's directory does not exist",
        where=root,
        expected="a directory",
        found="nothing",
        hint='make or mount it (it may be empty), correct feed.path, or set missing_directory = "wait" in [feed]',
    )


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
