"""What lies in the directories of a feed: files that its pattern names, and by name whatever it does not take.

A path is plain, or a pattern with ``*``, ``?``, ``[…]``, and ``**`` for any directories. What is there under a name is
taken by that name: ``feed[1]`` is the directory ``feed[1]``, if there is one.

A directory is listed again only when its own modification time moved, so dated directories of the past cost one
``stat`` each. Of each listed directory the names are remembered as numbers of 8 bytes, so that a file which came after
the first look is known as a newcomer, whatever its times say.

A directory is walked once, under its own name if that lies in the feed: links to directories are followed last. So
neither a loop of links nor ``current -> 2026-11-20`` brings a file twice.

Files that are not ingested are counted by reason, and some are named.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparkhaven.ingest.feeds.base import PassedFiles
from sparkhaven.store.errors import FeedError, RetryableFeedError, SparkhavenError
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.managed_trees import SINK_LOG, ManagedDirectories, SinkLog

ANY_DEPTH = "**"
_MAGIC = frozenset("*?[")
OLDER_NAMED = 5  # newcomers too old to be taken that a report names; all are counted
SHOWN = 5  # names of each kind that a report has; all are counted
HIDDEN, UNFINISHED, OTHER, NO_FILE = "hidden", "unfinished", "other name", "no regular file"
GONE = f"missing, though committed by {SINK_LOG}"
SAME = "another name of what is ingested"
NO_MATCH = "no file matches"
SETTLED_NS = 2_000_000_000  # a directory changed this recently may change again within one tick of its mtime


def split_pattern(fs: Fs, path: str) -> tuple[Path, tuple[str, ...]]:
    """The directory above the first wildcard, and the parts from there on (none: a plain path)."""
    parts = Path(path).parts
    root = Path()
    for index, part in enumerate(parts):
        if _MAGIC & set(part) and fs.stat(root / part, follow=False) is None:
            rest = parts[index:]
            return root, tuple(p for n, p in enumerate(rest) if p != ANY_DEPTH or rest[n - 1 : n] != (ANY_DEPTH,))
        root /= part
    return root, ()


def fits(name: str, part: str) -> bool:
    """Whether a name is that of a part of a pattern, or matches it."""
    return name == part or fnmatchcase(name, part)


def missing_directory(root: Path, kind: type[SparkhavenError]) -> SparkhavenError:
    """The error for a feed whose directory is not there."""
    braces = ". {a,b} is not a pattern. Write one stream for each, or a pattern of *, ? and […]"
    return kind(
        "the feed's directory does not exist",
        where=root,
        expected="a directory",
        found="nothing",
        hint='make or mount it (it may be empty), correct feed.path, or set missing_directory = "wait" in [feed]'
        + (braces if "{" in str(root) else ""),
    )


@dataclass(slots=True)
class Passed:
    """What is not taken: how many by reason, and the first paths of each."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, path: str, count: int = 1) -> None:
        """One more, or so many; 0: the path is no file."""
        self.counts[reason] += count
        shown = self.names.setdefault(reason, [])
        if len(shown) < SHOWN:
            shown.append(path)

    def merge(self, other: Passed) -> None:
        self.counts.update(other.counts)
        for reason, names in other.names.items():
            shown = self.names.setdefault(reason, [])
            shown.extend(names[: SHOWN - len(shown)])

    def to_json(self) -> dict[str, PassedFiles]:
        return {reason: {"count": count, "first": self.names[reason]} for reason, count in sorted(self.counts.items())}


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the feed. ``came``: it was not there at an earlier look of this process; ``again``: it was."""

    path: Path
    stat: Stat
    came: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """A directory to walk, the parts of the pattern from there on, and the sink that writes it, if one does."""

    directory: Path
    parts: tuple[str, ...]
    sink: SinkLog | None


@dataclass(slots=True)
class _Directory:
    """What the last listing of a directory showed. ``files`` is used once, so that no history of names is held.

    ``sink``: that of the directory itself; ``version``: of the log by which its files were chosen. ``links``: those of
    ``directories`` that are links; ``linked``: those of ``files`` that are.
    """

    mtime_ns: int
    settled: bool
    seen: npt.NDArray[np.int64]
    sink: SinkLog | None = None
    version: int = 0
    directories: list[str] = field(default_factory=list)
    links: set[str] = field(default_factory=set)
    files: dict[str, ListedFile] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)
    passed: Passed = field(default_factory=Passed)

    def has(self, name: str) -> bool:
        number = hash(name)
        index = int(np.searchsorted(self.seen, number))
        return index < len(self.seen) and int(self.seen[index]) == number


class FeedListing:
    """Files below ``path``, a plain path or a pattern, that are new or not taken (``is_taken``) since the last look.

    Names that begin with a dot or an underscore, and names that end as one of ``unfinished`` does (unless the pattern
    itself ends so), are passed over; and below the output of Spark's streaming file sink what its log does not name.
    """

    def __init__(self, fs: Fs, path: str, unfinished: tuple[str, ...], is_taken: Callable[[str], bool]) -> None:
        self._fs, self._path, self._is_taken = fs, path, is_taken
        self.root, self._parts = split_pattern(fs, path)
        last = Path(path).name.lower()
        self._unfinished = tuple(end.lower() for end in unfinished if not last.endswith(end.lower()))
        self._directories: dict[Path, _Directory] = {}
        self._listed: dict[Path, _Directory] = {}
        self._walked: dict[tuple[int, int, int], Path] = {}  # by device, inode, parts of the pattern that are left
        self._links: deque[_Step] = deque()  # to directories
        self._managed = ManagedDirectories(fs)
        self._own = Passed()  # what is of no listed directory
        self._matched = self._looked = False

    def look(self, now_ns: int) -> Iterator[ListedFile]:
        """The files of directories that changed since the last look.

        RetryableFeedError if the root is away: ``exists`` asks beforehand. SettingsError for the directory of a table
        that has a log of its own, errors of ``SinkLog.look``.
        """
        stat = self._root()
        if stat is None:
            raise missing_directory(self.root, RetryableFeedError)
        self._own = Passed()
        self._walked.clear()
        self._managed.begin()
        sink = self._managed.above(self.root, first=not self._looked)
        if not self._parts and not stat.is_dir:
            if _counts(self.root, stat, sink, self._own):
                yield ListedFile(self.root, stat, again=self._looked)
        else:
            self._links.append(_Step(self.root, self._parts or ("*",), sink))
            while self._links:
                for file in self._walk(self._links.popleft(), now_ns):
                    self._matched = True
                    yield file
            yield from self._under_other_names()
            if self._parts and not self._matched and not self._managed:
                self._own.add(NO_MATCH, self._path, 0)
        for path in self._listed:
            self._directories[path].files = {}
        self._listed.clear()
        self._looked = True

    def exists(self) -> bool:
        """Whether the directory above the first wildcard is there."""
        return self._root() is not None

    def passed(self) -> Passed:
        """What lies in the directories and is not taken, by the newest listing of each."""
        whole = Passed()
        for directory in self._directories.values():
            whole.merge(directory.passed)
        whole.merge(self._own)
        for path in self._managed.gone(lambda path: self._is_taken(str(path)) or self._fs.stat(path) is not None):
            whole.add(GONE, str(path))
        return whole

    def _root(self) -> Stat | None:
        self.root, self._parts = split_pattern(self._fs, self._path)  # a name with wildcards may be there now
        return self._fs.stat(self.root)

    def _walk(self, step: _Step, now_ns: int) -> Iterator[ListedFile]:
        directory, parts = step.directory, step.parts
        stat = self._fs.stat(directory)
        if stat is None or not stat.is_dir:
            self._directories.pop(directory, None)
            return
        first = self._walked.setdefault((stat.device, stat.inode, len(parts)), directory)
        if first != directory:
            self._own.add(SAME, str(directory))
            return
        listing, fresh = self._listing(directory, stat, step.sink, now_ns)
        sink = listing.sink or step.sink
        if parts[0] == ANY_DEPTH:
            yield from self._below(directory, listing, parts, "*", sink, now_ns)
            parts = parts[1:] or ("*",)
        if len(parts) > 1:
            yield from self._below(directory, listing, parts[1:], parts[0], sink, now_ns)
        elif fresh:
            for name, file in listing.files.items():
                if fits(name, parts[0]):
                    if name not in listing.linked:
                        yield file
                elif ANY_DEPTH not in self._parts:  # which comes here more than once
                    listing.passed.add(OTHER, str(file.path))

    def _below(
        self, directory: Path, listing: _Directory, parts: tuple[str, ...], part: str, sink: SinkLog | None, now_ns: int
    ) -> Iterator[ListedFile]:
        """Files below the directories whose names fit a part of the pattern; links come later."""
        for name in listing.directories:
            if fits(name, part):
                if name in listing.links:
                    self._links.append(_Step(directory / name, parts, self._managed.above(directory / name) or sink))
                else:
                    yield from self._walk(_Step(directory / name, parts, sink), now_ns)

    def _under_other_names(self) -> Iterator[ListedFile]:
        """Files that are links, but for those to files of the feed."""
        linked = [(listing, name) for listing in self._listed.values() for name in sorted(listing.linked)]
        last = self._parts[-1] if self._parts and self._parts[-1] != ANY_DEPTH else "*"
        real = {self._fs.resolve(path) for path in self._directories} if linked else set()
        for listing, name in linked:
            file = listing.files[name]
            target = self._fs.resolve(file.path)
            if not fits(name, last):
                continue
            self._matched = True
            if target.parent in real and not target.name.startswith((".", "_")) and fits(target.name, last):
                listing.passed.add(SAME, str(file.path))
            else:
                yield file

    def _listing(self, directory: Path, stat: Stat, above: SinkLog | None, now_ns: int) -> tuple[_Directory, bool]:
        if directory in self._listed:  # a pattern with ** may come here twice
            return self._listed[directory], True
        before = self._directories.get(directory)
        if before is not None and before.settled and before.mtime_ns == stat.mtime_ns:
            own = self._managed.sink(directory) if before.sink else None
            if before.version == _version(own or above):
                return before, False
        names = self._names(directory)
        own = self._managed.listed(directory, names)
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        hashes.sort()
        listing = _Directory(stat.mtime_ns, now_ns - stat.mtime_ns > SETTLED_NS, hashes, own, _version(own or above))
        for name in names:
            self._sort_in(directory, name, listing, before, own or above)
        self._listed[directory] = self._directories[directory] = listing
        return listing, True

    def _sort_in(
        self, directory: Path, name: str, listing: _Directory, before: _Directory | None, sink: SinkLog | None
    ) -> None:
        path = directory / name
        if name.startswith((".", "_")):
            listing.passed.add(HIDDEN, str(path))
            return
        _check_text(directory, name)
        if self._is_taken(str(path)):
            self._matched = True
            return
        stat = self._fs.stat(path, follow=False)
        is_link = stat is not None and stat.is_link
        if is_link:
            stat = self._fs.stat(path)
            sink = (self._managed.above(path) if stat is not None else None) or sink
        if stat is not None and stat.is_dir:
            listing.directories.append(name)
            if is_link:
                listing.links.add(name)
        elif self._unfinished and name.lower().endswith(self._unfinished):
            listing.passed.add(UNFINISHED, str(path))
        elif stat is None or not stat.is_file:  # a link that leads nowhere, a pipe; or it has just gone
            listing.passed.add(NO_FILE, str(path))
        elif _counts(path, stat, sink, listing.passed):
            again = before is not None and before.has(name)
            listing.files[name] = ListedFile(path, stat, came=self._looked and not again, again=again)
            if is_link:
                listing.linked.add(name)
        elif sink is not None and sink.committed(path) is not None:  # it may still be copied
            listing.settled = False

    def _names(self, directory: Path) -> list[str]:
        try:
            return self._fs.names(directory)
        except OSError as error:
            raise RetryableFeedError(
                "a directory of the feed cannot be listed", where=directory, found=error, hint="check its permissions"
            ) from error


def _counts(path: Path, stat: Stat, sink: SinkLog | None, passed: Passed) -> bool:
    """Whether a file is as its sink, if any, has committed it; else it is added to what is passed over."""
    refusal = sink.refusal(path, stat) if sink is not None else None
    if refusal is not None:
        passed.add(refusal, str(path))
    return refusal is None


def _version(sink: SinkLog | None) -> int:
    return sink.version if sink is not None else 0


def _check_text(directory: Path, name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise FeedError(
            "a feed file has a name that is not UTF-8",
            where=directory,
            found=ascii(name),
            hint="rename it, or hide it with a leading dot. Positions are kept by name",
        ) from None
