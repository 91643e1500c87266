"""The files feed as a Spark source: rows that *name* files, never their content.

An offset holds a batch number and the files of that batch only, so its size does not grow with the history. What was
taken before is asked from the commit log when the reader starts; Spark's checkpoint proposes, the log decides.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict

from sparkhaven.ingest.content.raw_file import MIN_PART, SMALL_BATCH, is_cuttable
from sparkhaven.ingest.feeds.base import WaitingCounts
from sparkhaven.ingest.feeds.files.listing import OLDER_NAMED
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.ingest.feeds.files.sample import remarks_on, row_bytes
from sparkhaven.ingest.feeds.spark_planning import FeedStream, PlanningReader, stream_source
from sparkhaven.readers.spark.source_api import DataSource, InputPartition, ReadLimit
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import carrying
from sparkhaven.store.io.fs import Fs

FilesStream = FeedStream[FilesOptions]
# start and stop: the part of the file; task: whose work it is; waiting: files left behind
SCHEMA = "path string, size bigint, mtime_ns bigint, task int, waiting bigint, start bigint, stop bigint"
FILE_COST = 64 << 10  # bytes that are decoded in the time that it takes to open, type and route one more file
GROWING_NAMED = 20


@dataclass
class FileRun(InputPartition):  # type: ignore[misc]
    """The files of one task, a run of the batch's files in order; its number in the batch; the files left after it.

    ``large``: more than the driver of a cluster does itself.
    """

    files: tuple[FileId, ...]
    task: int
    waiting: int
    large: bool = False


def files_source(stream: FilesStream, *, parts: bool) -> type[DataSource]:
    """The source class of one stream; ``parts``: a large file may be cut for several tasks."""
    return stream_source("files", stream, lambda of: FilesReader(Fs(), of, time.time, parts=parts), SCHEMA)


class FilesOffset(TypedDict):
    """A batch: its number, and path, size and time of its files."""

    n: int
    files: list[list[str | int]]


class FilesReport(WaitingCounts):
    """What waits behind batch ``n``; ``growing`` files may still be written."""

    n: int
    growing: list[str]


class FilesReader(PlanningReader):
    """Plans batches of whole files, the oldest first."""

    columns = SCHEMA

    def __init__(self, fs: Fs, stream: FilesStream, clock: Callable[[], float], *, parts: bool = False) -> None:
        self._fs, self._feed, self._parts = fs, stream.feed, parts
        self.own, self.scratch, self.given_tasks = stream.feed.max_per_trigger, stream.scratch, stream.tasks
        self._stopped = threading.Event()
        with carrying():
            self._planner = FilePlanner(
                fs,
                self._feed,
                stream.committed(fs)[0],
                clock,
                row_bytes=lambda file: row_bytes(fs, file, self._feed.format),
                steady=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
                pause=self._stopped.wait,
            )
        self._batch = 0
        self._older: deque[str] = deque(maxlen=OLDER_NAMED)
        self._older_count = 0
        self._growing: list[str] = []
        self._remarks: list[str] | None = None  # on the first file that is planned

    def initialOffset(self) -> FilesOffset:
        return {"n": 0, "files": []}

    def latestOffset(self, start: FilesOffset, limit: ReadLimit) -> FilesOffset:
        with carrying():
            self._planner.take(_files(start))
            plan = self._planner.plan(self.limited(limit))
            self._batch = start["n"]
            self._older.extend(file.path for file in plan.older)
            self._older_count += len(plan.older)
            self._growing = [file.path for file in plan.growing[:GROWING_NAMED]]
            if not plan.files:
                return start
            if self._remarks is None:
                self._remarks = remarks_on(self._fs, plan.files[0], self._feed)
            self._batch += 1
            files: list[list[str | int]] = [[file.path, file.size, file.mtime_ns] for file in plan.files]
            return self.planned(start, FilesOffset(n=self._batch, files=files))

    def prepareForTriggerAvailableNow(self) -> None:
        with carrying():
            self._planner.freeze()

    def stop(self) -> None:
        """Files that may still be written are no longer waited for."""
        self._stopped.set()

    def reportLatestOffset(self) -> FilesReport:
        """What is still waiting and what is never taken, for the progress report; this is no offset to read from."""
        files, size = self._planner.waiting()
        return {
            "n": self._batch,
            "waiting_files": files,
            "waiting_bytes": size,
            "older_files": self._older_count,
            "older": list(self._older),
            "growing": self._growing,
            "passed": self._planner.passed().to_json(),
            "remarks": self._remarks or [],
        }

    def partitions(self, start: FilesOffset, end: FilesOffset) -> Sequence[InputPartition]:
        """Runs of the files of ``end``, as even in bytes as their order allows."""
        if start == end:
            return []
        with carrying():
            files = _files(end)
            self._planner.take(files)
        runs = group_files(files, self.tasks_now(), cuttable=lambda file: self._parts and is_cuttable(self._fs, file))
        waiting, _ = self._planner.waiting()
        large = cost_of(files) > SMALL_BATCH
        return [FileRun(run, task, waiting, large) for task, run in enumerate(runs)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int, int, int, int, int]]:
        if isinstance(partition, FileRun):
            for file in partition.files:
                start, stop = (file.start, file.stop) if isinstance(file, FilePart) else (0, file.size)
                yield file.path, file.size, file.mtime_ns, partition.task, partition.waiting, start, stop


def group_files(
    files: Sequence[FileId],
    tasks: int,
    small: int = SMALL_BATCH,
    *,
    per_file: int = FILE_COST,
    cuttable: Callable[[FileId], bool] = lambda file: False,
) -> list[tuple[FileId, ...]]:
    """At most ``tasks`` contiguous runs of about equal cost, bytes and ``per_file`` for each; one if all cost little.

    A file that costs more than its run is cut where the runs meet, if it is ``cuttable`` and its parts are not small.
    """
    total = cost_of(files, per_file)
    if not files or tasks == 1 or total <= small:
        return [tuple(files)] if files else []
    runs: list[tuple[FileId, ...]] = []
    run: list[FileId] = []
    done = 0
    for file, cost in _pieces(files, total, tasks, per_file, cuttable):
        share = total * (len(runs) + 1) / tasks
        if run and len(runs) < tasks - 1 and done + cost / 2 > share:
            runs.append(tuple(run))
            run = []
        run.append(file)
        done += cost
    return [*runs, tuple(run)]


def cost_of(files: Sequence[FileId], per_file: int = FILE_COST) -> int:
    """What reading files costs, in bytes."""
    return sum(file.size + per_file for file in files)


def _pieces(
    files: Sequence[FileId], total: int, tasks: int, per_file: int, cuttable: Callable[[FileId], bool]
) -> Iterator[tuple[FileId, int]]:
    offset = 0
    for file in files:
        ends = (round(total * run / tasks) - offset - per_file for run in range(1, tasks))
        cuts = [end for end in ends if MIN_PART <= end <= file.size - MIN_PART]
        if cuts and cuttable(file):
            borders = [0, *cuts, file.size]
            for start, stop in pairwise(borders):
                part = FilePart(file.path, file.size, file.mtime_ns, start, stop)
                yield part, stop - start + (0 if start else per_file)
        else:
            yield file, file.size + per_file
        offset += file.size + per_file


def _files(offset: FilesOffset) -> list[FileId]:
    return [FileId(str(path), int(size), int(mtime_ns)) for path, size, mtime_ns in offset.get("files", [])]
