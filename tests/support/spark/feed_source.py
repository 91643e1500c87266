"""A small stream source of splits for tests: lists a directory, leaves out what the commit log has taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError, carrying
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.streams.stream_kit import STREAM, TABLE

Offset = dict[str, Any]


class Splits(InputPartition):  # type: ignore[misc]
    """Splits of one task, in the order of the batch."""

    def __init__(self, splits: Sequence[FileId], task: int) -> None:
        self.splits, self.task = tuple(splits), task


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """``per_batch`` files a batch, oldest first, in ``tasks`` partitions."""

    def __init__(self, feed: str, root: str, per_batch: int, tasks: int) -> None:
        self._feed, self._per_batch, self._tasks = Path(feed), per_batch, tasks
        fs, layout = Fs(), Layout(Path(root))
        taken = (
            load_stream(StreamPlace(fs, layout, TABLE, STREAM)).files
            if STREAM in list_streams(TablePlace(fs, layout, TABLE))
            else ()
        )
        self._offered = set(taken)
        self._until: list[FileId] | None = None

    def _new(self) -> list[FileId]:
        with carrying():
            if not self._feed.is_dir():
                raise FeedError("the feed's directory is gone", where=self._feed, expected="a directory")
        stats = [(path, path.stat()) for path in self._feed.iterdir() if not path.name.startswith(".")]
        found = {FileId(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats}
        return sorted(found - self._offered, key=lambda file: (file.mtime_ns, file.path))

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._new()

    def initialOffset(self) -> Offset:
        return {"n": 0, "files": []}

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        new = self._new()
        if self._until is not None:
            new = [file for file in new if file in self._until]
        some = new[: self._per_batch]
        self._offered.update(some)
        if not some:
            return start
        return {"n": start["n"] + 1, "files": [[file.path, file.size, file.mtime_ns] for file in some]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        files = [FileId(*file) for file in end["files"]] if start != end else []
        size = -(-len(files) // self._tasks) or 1
        runs = [files[at : at + size] for at in range(0, len(files), size)]
        return [Splits(run, task) for task, run in enumerate(runs)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Splits)
        return ((file.path, file.size, file.mtime_ns, partition.task) for file in partition.splits)

    def commit(self, end: Offset) -> None:
        pass


class FeedSource(DataSource):  # type: ignore[misc]
    """Format ``test_feed``."""

    @classmethod
    def name(cls) -> str:
        return "test_feed"

    def schema(self) -> str:
        return "path string, size bigint, mtime_ns bigint, task int"

    def streamReader(self, schema: object) -> FeedReader:
        options = self.options
        return FeedReader(options["feed"], options["root"], int(options["per_batch"]), int(options["tasks"]))
