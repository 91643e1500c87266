"""How many tasks share a batch: it follows the executors that are there, and the driver does small batches only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from sparkhaven.ingest.content.raw_file import SMALL_BATCH
from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, Entry, Planned
from sparkhaven.ingest.feeds.delta.source import VersionReader
from sparkhaven.ingest.feeds.delta.versions import AddedFile
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.source import FilesReader, FilesStream
from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds, TopicView
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.planner import SMALL_BATCH as SMALL_MESSAGES
from sparkhaven.ingest.feeds.kafka.source import TopicReader
from sparkhaven.ingest.feeds.spark_planning import FeedStream
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.batch_plan import note_tasks, noted_tasks
from sparkhaven.store.epochs.state.log_values import packed
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.writers.batch.stream_batches import FeedTables, StreamPlan
from sparkhaven.writers.spark.spark_tasks import SlotNotes, TaskSlots, is_local, slots_of
from sparkhaven.writers.spark.stream_query import Batches
from sparkhaven.writers.spark.workers import SparkExecutor, check_workers
from tests.support.streams.stream_kit import STREAM, TABLE, decode, numbers, open_log, put_file, record, target_of

FS = Fs()
ON = {"spark.dynamicAllocation.enabled": "true"}
BOUNDED = {"spark.dynamicAllocation.maxExecutors": "3", "spark.executor.cores": "2"}


@pytest.mark.parametrize(
    ("cores", "conf", "expected"),
    [
        (6, {}, 6),
        (0, {}, 1),
        (6, {"spark.dynamicAllocation.enabled": "false"}, 6),
        (6, ON, 12),  # tasks that wait are what Spark adds executors for
        (6, {"spark.dynamicAllocation.enabled": "True"}, 12),
        (2, ON | BOUNDED, 4),
        (4, ON | BOUNDED, 6),  # no more than it may add
        (6, ON | BOUNDED, 6),
        (8, ON | BOUNDED, 8),
        (4, ON | {"spark.cores.max": "5"}, 5),
        (4, ON | {"spark.dynamicAllocation.maxExecutors": "3"}, 8),  # an executor may have any number of cores
        (9, ON | {"spark.default.parallelism": "9"}, 9),
    ],
)
def test_slots_follow_the_cores(cores: int, conf: Mapping[str, str], expected: int) -> None:
    assert slots_of(cores, conf, local=False) == expected
    assert slots_of(cores, conf, local=True) == max(1, cores)


def test_masters_that_are_this_process() -> None:
    assert [is_local(url) for url in ("local", "local[*]", "local[2]")] == [True] * 3
    assert [is_local(url) for url in ("local-cluster[2,1,1024]", "spark://a:7077", "yarn", "k8s://x")] == [False] * 4


class Context:
    """A SparkContext of a cluster whose tasks run here; ``cores`` change."""

    master, pythonExec = "spark://one:7077", "python3"

    def __init__(self, cores: int = 2, **conf: str) -> None:
        self.cores, self.conf, self.jobs, self.asked = cores, conf, 0, 0
        self._work: Callable[[Iterator[Any]], Iterator[Any]]
        self._tasks: list[Any] = []

    @property
    def defaultParallelism(self) -> int:
        self.asked += 1
        if not self.cores:
            raise Py4JError("An error occurred while calling o1.defaultParallelism")
        return self.cores

    def getConf(self) -> dict[str, str]:
        return self.conf

    def parallelize(self, tasks: list[Any], _: int) -> Context:
        self._tasks = tasks
        return self

    def mapPartitions(self, work: Callable[[Iterator[Any]], Iterator[Any]]) -> Context:
        self._work = work
        return self

    def collect(self) -> list[Any]:
        self.jobs += 1
        return [each for task in self._tasks for each in self._work(iter([task]))]


def test_a_change_is_noted_for_the_planner_and_the_end_of_spark_is_none(tmp_path: Path) -> None:
    context, scratch = Context(), tmp_path / "scratch"
    notes = SlotNotes(FS, scratch, TaskSlots(context))  # type: ignore[arg-type]
    assert noted_tasks(FS, scratch) is None
    for cores, expected in ((2, 2), (5, 5), (3, 3), (0, 3)):
        context.cores = cores
        notes.renew()
        assert noted_tasks(FS, scratch) == expected
    (scratch / "tasks").unlink()
    notes.renew()
    assert noted_tasks(FS, scratch) is None, "written only when it changes"
    (scratch / "tasks").write_bytes(b"")
    assert noted_tasks(FS, scratch) is None


def test_in_local_mode_spark_is_asked_once() -> None:
    context = Context(2)
    context.master = "local[2]"
    slots = TaskSlots(context)  # type: ignore[arg-type]
    assert (slots(), slots(), context.asked) == (2, 2, 1)


def put_sizes(feed: Path, *sizes: int) -> None:
    feed.mkdir(exist_ok=True)
    for number, size in enumerate(sizes):
        with (feed / f"{number}.gz").open("wb") as file:
            file.truncate(size)
        os.utime(feed / f"{number}.gz", (1_400_000_000 + number,) * 2)


def files_reader(tmp_path: Path, table: TableName = TABLE) -> FilesReader:
    feed = FilesOptions(str(tmp_path / "feed"), max_per_trigger=Limit(files=100))
    stream = FilesStream(tmp_path / "db", table, STREAM, feed, 2)
    return FilesReader(FS, stream, lambda: 1_400_000_500.0, parts=True)


def test_files_are_shared_out_over_the_executors_that_are_there_now(tmp_path: Path) -> None:
    put_sizes(tmp_path / "feed", *[4 << 20] * 12)
    reader, scratch = files_reader(tmp_path), Layout(tmp_path / "db").scratch(TABLE, STREAM)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(reader.partitions(start, end)) == 2
    for tasks in (6, 3):
        note_tasks(FS, scratch, tasks)
        assert len(reader.partitions(start, end)) == tasks


class Topics:
    """A broker with one topic of three partitions."""

    def look(self) -> Mapping[str, TopicView]:
        return {"t": TopicView("id", {n: OffsetBounds(0, 30_000) for n in range(3)})}

    def at_time(self, places: list[tuple[str, int]], at_ms: int) -> dict[tuple[str, int], int | None]:
        return dict.fromkeys(places)


def topic_reader(tmp_path: Path, limit: Limit) -> TopicReader:
    feed = KafkaOptions("nowhere", ("t",), max_per_trigger=limit)
    stream = FeedStream(tmp_path / "db", TABLE, STREAM, feed, 2)
    return TopicReader(stream, Topics(), {})  # type: ignore[arg-type]


def test_messages_are_shared_out_over_the_executors_that_are_there_now(tmp_path: Path) -> None:
    reader = topic_reader(tmp_path, Limit())
    end = reader.latestOffset({}, ReadAllAvailable())
    assert [run.large for run in reader.partitions({}, end)] == [True] * 2  # type: ignore[attr-defined]
    note_tasks(FS, reader.scratch, 3)
    assert len(reader.partitions({}, end)) == 3


@pytest.mark.parametrize(("each", "tasks", "large"), [(100.0, 1, False), (1000.0, 2, True)])
def test_few_messages_that_are_heavy_are_no_small_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: float, tasks: int, large: bool
) -> None:
    """With a limit in bytes the planner knows what a message weighs."""
    reader = topic_reader(tmp_path, Limit(bytes=int(each * SMALL_MESSAGES)))
    monkeypatch.setattr(reader, "_sizes", SimpleNamespace(bytes_per_message=lambda *_: each))
    end = reader.latestOffset({}, ReadMaxBytes(int(each * SMALL_MESSAGES)))
    runs = reader.partitions({}, end)
    assert ([run.large for run in runs], sum(end.values())) == ([large] * tasks, SMALL_MESSAGES)  # type: ignore[attr-defined]


def test_versions_are_shared_out_over_the_executors_that_are_there_now(tmp_path: Path) -> None:
    files = [Entry(packed(1, n), AddedFile(f"/{n}", 4 << 20, None)) for n in range(8)]
    planner = SimpleNamespace(position=0, table_id="id", waiting=lambda: (0, 0), look=lambda: None)
    planner.plan = lambda limit: Planned(packed(1), packed(2), tuple(files))
    stream = FeedStream(tmp_path / "db", TABLE, STREAM, DeltaOptions("/table"), 2)
    reader = VersionReader(stream, planner)  # type: ignore[arg-type]
    end = reader.latestOffset({"position": packed(1)}, ReadAllAvailable())
    for tasks in (2, 4):
        note_tasks(FS, reader.scratch, tasks)
        runs = reader.partitions({}, end)
        assert [run.large for run in runs] == [True] * tasks  # type: ignore[attr-defined]


@pytest.mark.parametrize("master", ["local[2]", "spark://a:7077"])
def test_a_small_batch_is_done_in_the_driver(tmp_path: Path, master: str) -> None:
    assert jobs_of_a_batch(tmp_path, master, large=False) == 0


@pytest.mark.parametrize(("master", "jobs"), [("local[2]", 0), ("local-cluster[1,1,1024]", 1), ("spark://a:7077", 1)])
def test_a_large_batch_of_one_task_is_done_by_an_executor_of_a_cluster(tmp_path: Path, master: str, jobs: int) -> None:
    assert jobs_of_a_batch(tmp_path, master, large=True) == jobs


def jobs_of_a_batch(tmp_path: Path, master: str, *, large: bool) -> int:
    """Commits a batch of one task, planned as large or not; how many Spark jobs it took."""
    one = put_file(tmp_path / "feed", "1", [record(1), record(2)], 1)
    row = {"path": one.path, "size": one.size, "mtime_ns": one.mtime_ns, "task": 0} | ({"large": True} if large else {})
    context = Context()
    context.master = master
    splits: Any = SimpleNamespace(
        sparkSession=SimpleNamespace(sparkContext=context), collect=lambda: [SimpleNamespace(asDict=lambda: row)]
    )
    with open_log(FS, tmp_path / "db") as log:
        batches = Batches(
            FS, FeedTables.one(log, target_of(tmp_path / "db", log), StreamPlan("q", {}, decode)), lambda: 0.0
        )
        batches(splits, 0)
        assert (batches.error, numbers(tmp_path / "db", log.state)) == (None, [1, 2])
    return context.jobs


@pytest.mark.parametrize(("size", "large"), [(SMALL_BATCH // 2, False), (SMALL_BATCH + 1, True)])
def test_a_packed_file_above_the_limit_is_a_large_batch_of_one_task(tmp_path: Path, size: int, large: bool) -> None:
    put_sizes(tmp_path / "feed", size)
    reader = files_reader(tmp_path)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (run,) = reader.partitions(reader.initialOffset(), end)
    assert run.large == large  # type: ignore[attr-defined]
    plan = (Layout(tmp_path / "db").scratch(TABLE, STREAM) / "planned.json").read_text(encoding="utf-8")
    assert ('"large": true' in plan) == large, "the driver reads it there"


def test_a_merge_counts_its_workers_before_each_wave_and_asks_them_first(tmp_path: Path) -> None:
    context = Context(2)
    (tmp_path / "marker").touch()
    known = SimpleNamespace(size=lambda: 2)
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: known))  # type: ignore[attr-defined]
    executor = SparkExecutor(context, tmp_path, tmp_path / "marker")
    assert context.jobs == 0
    for cores, expected in ((7, 7), (4, 4), (0, 4)):
        context.cores = cores
        assert (executor.workers, context.jobs) == (expected, 1)


def test_every_executor_is_asked_that_registers_while_the_first_ones_answer(tmp_path: Path) -> None:
    (tmp_path / "marker").touch()

    class Growing(Context):
        """Its executors register after the first job."""

        def parallelize(self, tasks: Any, count: int) -> Context:
            counts.append(count)
            self.cores = 12
            return super().parallelize(list(tasks), count)

    counts: list[int] = []
    context = Growing(2)
    known = SimpleNamespace(size=lambda: 7)
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: known))  # type: ignore[attr-defined]
    check_workers(context, tmp_path, tmp_path / "marker")  # type: ignore[arg-type]
    assert counts == [2, 12, 12, 12, 12]
