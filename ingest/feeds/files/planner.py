"""Which files of a feed come next: a planner without Spark, over a file system and clocks that are handed in.

Files are taken once, oldest first by (mtime, path), as soon as they are seen and rest
(below); so a producer writes under a hidden name and renames. What was taken is
remembered in a ``FileWindow`` that is bounded by ``max_file_age``: a file older than its horizon that is not remembered
is never taken. Whether it was taken long ago cannot be known then, so all of them are counted, and one that came after
the first look, or whose inode changed after the horizon, is reported in ``FilePlan.older``. At each plan a few
remembered files are looked at again; one that is not what was taken stops the stream.

A file that may still be written is left until it rests. A producer that renames its file when it is complete never
comes here. Of one that does not, the end of the file tells what is recognized: text without a line end after its last
line, a Parquet file without its footer, an empty file. Such a file is taken when it has not changed for ``settle_s``,
by its modification time or as long as it was watched.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.ingest.content.packing import MAGIC_BYTES, packing_of, packing_of_name
from sparkhaven.ingest.content.raw_file import changed
from sparkhaven.ingest.encodings import line_feed
from sparkhaven.ingest.feeds.files.listing import FeedListing, ListedFile, Passed, missing_directory
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.epochs.state.file_positions import FileWindow, moment
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import CorruptFileError, FeedError, RetryableFeedError
from sparkhaven.store.io.fs import Fs

_FOOTERS = (b"PAR1", b"PARE")


class Settling:
    """Watches files of one feed that end as no complete file does."""

    def __init__(self, fs: Fs, feed: FilesOptions) -> None:
        self._fs, self._feed = fs, feed
        self._watched: dict[str, tuple[FileId, float, float]] = {}  # as it was last seen, since when, first seen

    def rests(self, file: FileId, now_s: float) -> bool:
        """Whether the file may be taken; it is watched from the first time that it may not."""
        settle = self._feed.settle_s
        if not settle or now_s - file.mtime_ns / 1e9 >= settle or self._ends(file):
            self._watched.pop(file.path, None)
            return True
        watched, since, first = self._watched.get(file.path, (file, now_s, now_s))
        if watched == file and now_s - since >= settle:
            del self._watched[file.path]
            return True
        self._watched[file.path] = (file, since if watched == file else now_s, first)
        return False

    def overdue(self, file: FileId, now_s: float) -> bool:
        """Whether a file that may not be taken yet was watched longer than it would have to rest."""
        return file.path in self._watched and now_s - self._watched[file.path][2] >= self._feed.settle_s

    def forget(self, path: str) -> None:
        self._watched.pop(path, None)

    def _ends(self, file: FileId) -> bool:
        """Whether the file ends as a complete one does. A packed one does not tell."""
        if not file.size:
            return False
        if packing_of_name(file.path) is not None:
            return True
        try:
            if self._feed.format == "parquet":
                return self._bytes(file, -4) in _FOOTERS
            head = self._bytes(file, MAGIC_BYTES)
            if packing_of(head) is not None:
                return True
            end = line_feed(self._feed.encoding, head)
            return file.size % len(end) == 0 and self._bytes(file, -len(end)) == end
        except (OSError, CorruptFileError):
            return False  # it changes just now, or whoever reads it says what is wrong

    def _bytes(self, file: FileId, count: int) -> bytes:
        """The first bytes of a file, or the last ones (negative)."""
        length = min(abs(count), file.size)
        return self._fs.read_range(Path(file.path), file.size - length if count < 0 else 0, length)


RECHECKED = 64  # remembered files that one plan looks at again
JUMP_S = 86_400.0  # a clock that leaps further while the process runs was set
PAUSE_S = 0.2
COUNT_AS_TAKEN = "older than the horizon"


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Files of one batch by (mtime, path), what is left after it, and newcomers that are too old to be taken.

    ``growing`` were watched longer than a file has to rest, and still change: they are left for now, and by a frozen
    planner for the next run.
    """

    files: tuple[FileId, ...]
    waiting_files: int
    waiting_bytes: int
    older: tuple[FileId, ...] = ()
    growing: tuple[FileId, ...] = ()


class FilePlanner:
    """Plans batches of one files feed. ``taken`` is what the commit log remembers, with its horizon.

    ``row_bytes`` tells how many bytes of a file make a row, for limits in rows. ``steady`` is a clock that nobody sets
    (seconds), ``pause`` waits so many seconds.
    """

    def __init__(
        self,
        fs: Fs,
        feed: FilesOptions,
        taken: FileWindow,
        clock: Callable[[], float],
        *,
        row_bytes: Callable[[FileId], float] | None = None,
        steady: Callable[[], float] | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._fs, self._feed, self._clock, self._pause = fs, feed, clock, pause
        self._row_bytes = row_bytes
        self._steady = steady
        self._set_off = clock() - steady() if steady else 0.0
        self._window = taken.copy()
        self._listing = FeedListing(fs, feed.path, feed.unfinished, lambda path: self._window.known(path) is not None)
        self._settling = Settling(fs, feed)
        self._pending: dict[str, FileId] = {}
        self._unsettled: list[FileId] = []
        self._reported: dict[str, tuple[FileId, int]] = {}  # with the time of the inode's last change
        self._older: list[FileId] = []
        self._counted = Passed()
        self._recheck = deque(self._window.paths())
        self._frozen = False

    def plan(self, limit: Limit | None = None) -> FilePlan:
        """The next batch within ``limit`` (default: that of the feed); at least one file if any is waiting.

        A frozen planner waits for files that may still be written, at most until they have to rest; those that do not
        are left. Raises PositionGapError naming both sizes when a file that was taken is no longer what it was.
        """
        if not self._frozen:
            self.look()
        self._check_remembered()
        limit = self._feed.max_per_trigger if limit is None else limit
        chosen = self._admit(limit)
        left_s = self._feed.settle_s + PAUSE_S
        while self._frozen and not chosen and self._unsettled and left_s > 0:
            self._pause(PAUSE_S)
            left_s -= PAUSE_S
            chosen = self._admit(limit)
        self.take(chosen)
        left = self._pending.values()
        older, self._older = tuple(self._older), []
        growing = [file for file in self._unsettled if self._frozen or self._settling.overdue(file, self._clock())]
        return FilePlan(tuple(chosen), len(left), sum(file.size for file in left), older, tuple(growing))

    def freeze(self) -> None:
        """From here on only files that are there now are planned."""
        self.look()
        self._frozen = True

    def waiting(self) -> tuple[int, int]:
        return len(self._pending), sum(file.size for file in self._pending.values())

    def first(self, files: int) -> list[FileId]:
        """The first files of the next batch, at most so many; they are not planned by this."""
        return self._admit(Limit(files=files))

    def take(self, files: Iterable[FileId]) -> None:
        """Remembers files as planned; harmless for those that are remembered already."""
        fresh = [file for file in files if self._window.status(file) == "fresh"]
        age_ns = round(self._feed.max_file_age_s * 1e9)
        horizon = self._window.next_horizon(fresh, round(self._clock() * 1e9), age_ns)
        self._window.take(fresh, horizon)
        for file in fresh:
            self._pending.pop(file.path, None)
            self._recheck.append(file.path)

    def passed(self) -> Passed:
        """What lies in the feed and is not taken: names passed over, and files that count as taken by their age."""
        whole = Passed()
        whole.merge(self._counted)
        whole.merge(self._listing.passed())
        return whole

    def older(self) -> tuple[FileId, ...]:
        """Newcomers since the last plan that are too old to be taken."""
        return tuple(self._older)

    def look(self) -> None:
        """Looks for files that are new since the last look.

        RetryableFeedError where the feed's directory is away, unless it is waited for; PositionGapError for a horizon
        in the future; FeedError for a clock that was set forward since the planner was made.
        """
        now_ns = round(self._clock() * 1e9)
        self._window.require_past(now_ns)
        self._require_steady()
        if not self._listing.exists():
            if self._feed.missing_directory == "wait":
                return
            raise missing_directory(self._listing.root, RetryableFeedError)
        for listed in self._listing.look(now_ns):
            self._meet(listed)
        horizon = self._window.horizon
        self._reported = {path: row for path, row in self._reported.items() if row[1] >= horizon}

    def _require_steady(self) -> None:
        leap = self._clock() - self._steady() - self._set_off if self._steady else 0.0
        if leap > JUMP_S:
            raise FeedError(
                "the clock of this machine was set forward while the stream ran",
                where="the clock",
                expected=f"about {moment(round((self._clock() - leap) * 1e9))}",
                found=moment(round(self._clock() * 1e9)),
                hint="files older than max_file_age by this clock would never be taken. Correct the clock, or start the"
                " stream again if it is right now",
            )

    def _meet(self, listed: ListedFile) -> None:
        file = FileId(str(listed.path), listed.stat.size, listed.stat.mtime_ns)
        status = self._window.status(file)
        if status == "fresh":
            self._pending[file.path] = file
        elif status == "below":
            ctime = listed.stat.ctime_ns
            if not listed.came and ctime < self._window.horizon:
                if not listed.again:
                    self._counted.add(COUNT_AS_TAKEN, file.path)
            else:
                self._too_old(file, ctime)

    def _too_old(self, file: FileId, ctime_ns: int) -> None:
        self._pending.pop(file.path, None)
        if self._reported.get(file.path, (None, 0))[0] != file:
            self._reported[file.path] = (file, ctime_ns)
            self._older.append(file)

    def _check_remembered(self) -> None:
        for _ in range(min(RECHECKED, len(self._recheck))):
            path = self._recheck.popleft()
            taken = self._window.known(path)
            if taken is None:
                continue  # forgotten by age
            stat = self._fs.stat(Path(path))
            if stat is not None and (stat.size, stat.mtime_ns) != (taken.size, taken.mtime_ns):
                raise changed(taken, stat.size, stat.mtime_ns)
            self._recheck.append(path)

    def _admit(self, limit: Limit) -> list[FileId]:
        chosen: list[FileId] = []
        size, rows = 0, 0.0
        self._unsettled = []
        now_s = self._clock()
        for listed in sorted(self._pending.values(), key=lambda file: (file.mtime_ns, file.path)):
            file = self._again(listed)
            if file is None:
                continue
            if self._window.status(file) != "fresh":  # its time was set back since it was listed
                self._too_old(file, round(now_s * 1e9))
                continue
            if not self._settling.rests(file, now_s):
                self._unsettled.append(file)
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
        stat = self._fs.stat(Path(file.path))
        if stat is None:
            del self._pending[file.path]
            self._settling.forget(file.path)
            return None
        current = FileId(file.path, stat.size, stat.mtime_ns)
        self._pending[file.path] = current
        return current
