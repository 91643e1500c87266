"""The files feed as a Spark source: rows that *name* files, never their content.

An offset holds a batch number and the files of that batch only, so its size does not grow with the history. What was
taken before is asked from the commit log when the reader starts; Spark's checkpoint proposes, the log decides.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict, cast

from sparkhaven.ingest.content.file_parts import MIN_PART, SMALL_BATCH, is_cuttable
from sparkhaven.ingest.feeds.base import WaitingCounts
from sparkhaven.ingest.feeds.files.discovery.listing import OLDER_NAMED
from sparkhaven.ingest.feeds.files.header import remarks_on
from sparkhaven.ingest.feeds.files.options import FilesOptions, MissingDirectory
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.ingest.feeds.files.sample import row_bytes
from sparkhaven.ingest.feeds.spark_planning import PlanningReader
from sparkhaven.ingest.spec.payload_formats import CsvOptions, Format, Limit
from sparkhaven.readers.spark.source_api import DataSource, DataSourceStreamReader, InputPartition, ReadLimit
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import SettingsError, carrying
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace

SOURCE = "sparkhaven_files"
# start and stop: the part of the file; task: whose work it is; waiting: files left behind
SCHEMA = "path string, size bigint, mtime_ns bigint, task int, waiting bigint, start bigint, stop bigint"
FILE_COST = 64 << 10  # bytes that are decoded in the time that it takes to open, type and route one more file
GROWING_NAMED = 20


def source_options(
    root: Path,
    table: TableName,
    stream: str,
    feed: FilesOptions,
    *,
    tasks: int,
    parts: bool = False,
    beside: Sequence[str] = (),
) -> dict[str, str]:
    """Options of the source for one stream, to be given to ``spark.readStream.options(**...)``.

    ``parts``: a large file may be cut for several tasks. ``beside``: further tables that the feed has rows of, each
    with a log of the stream.
    """
    limit = feed.max_per_trigger
    limits = {"maxBytes": limit.bytes, "maxRows": limit.rows, "maxFiles": limit.files}
    return {
        "root": str(root),
        "table": str(table),
        "stream": stream,
        "beside": json.dumps(list(beside)),
        "path": feed.path,
        "format": feed.format,
        "encoding": feed.encoding,
        "tasks": str(tasks),
        "parts": str(parts).lower(),
        "maxFileAgeSeconds": repr(feed.max_file_age_s),
        "settleSeconds": repr(feed.settle_s),
        "unfinished": json.dumps(feed.unfinished),
        "missingDirectory": feed.missing_directory,
        "csv": json.dumps(asdict(feed.csv)),
        **{name: str(value) for name, value in limits.items() if value is not None},
    }


@dataclass
class FileRun(InputPartition):  # type: ignore[misc]
    """The files of one task, a run of the batch's files in order; its number in the batch; the files left after it.

    ``large``: more than the driver of a cluster does itself.
    """

    files: tuple[FileId, ...]
    task: int
    waiting: int
    large: bool = False


class FilesSource(DataSource):  # type: ignore[misc]
    """Registered as ``sparkhaven_files``; see ``source_options``."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> str:
        """Path, size, time of each file, the task that takes it, files left after the batch, and which part it is."""
        return SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return FilesReader(Fs(), dict(self.options), time.time)


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

    def __init__(self, fs: Fs, options: dict[str, str], clock: Callable[[], float]) -> None:
        with carrying():
            by_name = {name.lower(): value for name, value in options.items()}
            self._feed = _feed(by_name)
            self.own = self._feed.max_per_trigger
            self.scratch = Layout(Path(by_name["root"])).scratch(TableName.parse(by_name["table"]), by_name["stream"])
            self.given_tasks = int(by_name.get("tasks", "1"))
            self._fs, self._parts = fs, by_name.get("parts") == "true"
            self._stopped = threading.Event()
            self._planner = FilePlanner(
                fs,
                self._feed,
                _taken(fs, by_name),
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


def _feed(options: dict[str, str]) -> FilesOptions:
    missing = sorted({"root", "table", "stream", "path"} - options.keys())
    if missing:
        raise SettingsError(f"the source {SOURCE} lacks options", found=", ".join(missing), hint="use source_options")
    numbers = {
        name: options.get(key) for name, key in (("bytes", "maxbytes"), ("rows", "maxrows"), ("files", "maxfiles"))
    }
    limit = Limit(**{name: int(value) for name, value in numbers.items() if value is not None})
    feed = FilesOptions(options["path"], max_per_trigger=limit)
    return replace(
        feed,
        csv=_dialect(options["csv"]) if "csv" in options else feed.csv,
        format=cast("Format", options.get("format", feed.format)),
        encoding=options.get("encoding", feed.encoding),
        max_file_age_s=float(options.get("maxfileageseconds", feed.max_file_age_s)),
        settle_s=float(options.get("settleseconds", feed.settle_s)),
        unfinished=tuple(json.loads(options["unfinished"])) if "unfinished" in options else feed.unfinished,
        missing_directory=cast("MissingDirectory", options.get("missingdirectory", feed.missing_directory)),
    )


def _dialect(text: str) -> CsvOptions:
    options: dict[str, Any] = json.loads(text)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return CsvOptions(**values)


def _taken(fs: Fs, options: dict[str, str]) -> FileWindow:
    layout, tables = Layout(Path(options["root"])), [options["table"], *json.loads(options.get("beside", "[]"))]
    places = [StreamPlace(fs, layout, TableName.parse(table), options["stream"]) for table in tables]
    return load_joint_positions(places)[0]  # none at the first start of a stream


def _files(offset: FilesOffset) -> list[FileId]:
    return [FileId(str(path), int(size), int(mtime_ns)) for path, size, mtime_ns in offset.get("files", [])]
