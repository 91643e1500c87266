"""Every feed passes one suite; the Kafka feed does so with a real broker too, in ``tests/kafka``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.sqlite_feed import NAME, SqliteOptions
from sparkhaven.ingest.feeds.frames import FrameBatch, FramesFeed, FramesOptions
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages
from sparkhaven.ingest.feeds.kafka.broker.reader_pool import ReaderPool
from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds, TopicView
from sparkhaven.ingest.feeds.registry import GIVEN, PLANNED, feed_class, planned_class
from sparkhaven.ingest.spec import Limit
from sparkhaven.jobs.settings.stream_file import StreamSettings, parse_stream
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import SettingsError
from sparkhaven.testing import FeedCase, FeedContract, PlannedFeedCase, PlannedFeedContract, Row
from sparkhaven.testing.feed_contract import spec_of
from tests.support.ingest.delta.tables import put_version, unpack
from tests.support.ingest.messages import Fake
from tests.support.kafka.laid_out import framed
from tests.support.streams.stream_kit import put_file


class FilesCase(PlannedFeedCase):
    """One file for each addition."""

    small = ({"files": 1}, {"bytes": 1})

    def __init__(self, base: Path) -> None:
        self._directory, self._numbers = base / "feed", count(1)
        self._directory.mkdir()
        keys = {"type": "files", "path": "feed/*.json"}
        super().__init__(base, keys, {**keys, "path": "nowhere/*.json"})

    def add(self, rows: Sequence[Row]) -> None:
        name = next(self._numbers)
        put_file(self._directory, f"{name}.json", rows, 1_790_000_000 + name)


class DeltaCase(PlannedFeedCase):
    """One version with one data file for each addition to an empty table."""

    on_this_machine = False  # the planner reads the log anyway
    small = ({"files": 1}, {"bytes": 1})

    def __init__(self, base: Path) -> None:
        self._table, self._versions = unpack(base, until=0), count(1)
        super().__init__(base, {"type": "delta", "path": "table"}, {"type": "delta", "path": "nowhere"})

    def add(self, rows: Sequence[Row]) -> None:
        version = next(self._versions)
        path = self._table / f"{version}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": version}
        put_version(self._table, version, {"add": {**add, "dataChange": True}})


class SqliteCase(PlannedFeedCase):
    """The feed of the examples, which no module of the project knows."""

    def __init__(self, base: Path) -> None:
        self._path = base / "rows.db"
        with closing(sqlite3.connect(self._path)) as database, database:
            columns = "id INTEGER PRIMARY KEY AUTOINCREMENT, Src TEXT, N INTEGER, Sym TEXT, Note TEXT"
            database.execute(f"CREATE TABLE rows ({columns})")
        keys = {"type": NAME, "path": "rows.db", "table": "rows"}
        super().__init__(base, keys, {**keys, "path": "nowhere.db"})

    def add(self, rows: Sequence[Row]) -> None:
        values = [tuple(row[name] for name in ("Src", "N", "Sym", "Note")) for row in rows]
        with closing(sqlite3.connect(self._path)) as database, database:
            database.executemany("INSERT INTO rows (Src, N, Sym, Note) VALUES (?, ?, ?, ?)", values)


TIME_MS = 1_795_255_200_000


class Partition:
    """The only partition of a topic in memory, in the places of what asks a broker and of what reads from it."""

    def __init__(self) -> None:
        self.messages: list[Fake] = []

    def look(self) -> dict[str, TopicView]:
        return {"t": TopicView("id", {0: OffsetBounds(0, len(self.messages))})}

    def ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: len(self.messages) for place in places}

    def stop(self) -> None:
        """Nothing waits."""

    def read(self, wanted: OffsetRange) -> Iterator[FramedMessages]:
        yield framed(self.messages[wanted.start : wanted.stop])

    def last_of(self, wanted: OffsetRange) -> None:
        """Nobody puts this topic back."""


class KafkaCase(PlannedFeedCase):
    """Everything of the feed but its client; with that, the suite runs in ``tests/kafka``."""

    def __init__(self, base: Path, partition: Partition) -> None:
        self._partition = partition
        super().__init__(base, {"type": "kafka", "bootstrap": "nowhere:1", "topics": ["t"]})

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            payload = json.dumps(row).encode()
            self._partition.messages.append(Fake(len(self._partition.messages), payload, time_ms=TIME_MS))


class FramesCase(FeedCase):
    """Batches of a data frame, which carry their rows."""

    def __init__(self) -> None:
        self.feed = FramesFeed(spec_of(FramesOptions()))

    def put(self, rows: Sequence[Row]) -> list[Any]:
        batch = pa.RecordBatch.from_pylist(list(rows), pa.schema(SPARK))
        return [FrameBatch(batch, "t/0", np.arange(len(rows), dtype=np.int64), "offset")]


SPARK = {"Src": pa.string(), "N": pa.int64(), "Sym": pa.string(), "Note": pa.string()}


class TestFiles(PlannedFeedContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> FilesCase:
        return FilesCase(tmp_path)


class TestDelta(PlannedFeedContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> DeltaCase:
        return DeltaCase(tmp_path)


class TestKafkaWithoutBroker(PlannedFeedContract):
    @pytest.fixture
    def case(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaCase:
        partition = Partition()
        for module in ("broker.topics", "source"):
            monkeypatch.setattr(
                f"sparkhaven.ingest.feeds.kafka.{module}.KafkaTopics", lambda options, **more: partition
            )
        monkeypatch.setattr(ReaderPool, "lease", lambda kept, feed, ranges, headers: nullcontext(partition))
        return KafkaCase(tmp_path, partition)


class TestSqlite(PlannedFeedContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SqliteCase:
        return SqliteCase(tmp_path)


class TestFrames(FeedContract):
    @pytest.fixture
    def case(self) -> FramesCase:
        return FramesCase()


# --- the table of feeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PLANNED, *GIVEN])
def test_each_row_names_a_class(name: str) -> None:
    assert feed_class(name).__name__ == f"{name.title()}Feed"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("parquet", "unknown type of feed"),
        ("../x:Y", "unknown type of feed"),
        ("a:b:c", "unknown type of feed"),
        ("no_such_module:Feed", "cannot be imported"),
        ("examples.sqlite_feed:Nothing", "the module has no such feed"),
        ("json:loads", "the module has no such feed"),
        ("json:JSONDecoder", "the module has no such feed"),
        ("frames", "cannot be named in a stream file"),
    ],
)
def test_names_of_no_feed_are_refused(name: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what) as refused:
        planned_class(name)
    assert refused.value.where == "feed.type" and '"module:Class"' in str(refused.value.expected)
    assert refused.value.hint and json.dumps(str(refused.value))


STREAM = {
    "name": "orders",
    "table": "Test.Order",
    "schema": "Test.Order.schema",
    "feed": {"type": NAME, "path": "orders.db", "table": "orders"},
    "partition": {"internal": {"fixed": "0"}, "value": {"fixed": "2026-11-22"}},
}


def parse(base: Path, environ: dict[str, str] | None = None, **feed: str) -> StreamSettings:
    raw = {**STREAM, "feed": {**STREAM["feed"], **feed}}  # type: ignore[dict-item]
    return parse_stream(raw, base / "orders.toml", environ or {})


def test_a_stream_file_names_a_class(tmp_path: Path) -> None:
    settings = parse(tmp_path)
    assert settings.feed.options == SqliteOptions(str(tmp_path / "orders.db"), "orders", Limit(rows=100_000))
    with pytest.raises(SettingsError, match="unknown key 'tabel'") as wrong:
        parse(tmp_path, tabel="orders")
    assert wrong.value.hint == "did you mean 'table'?"
    with pytest.raises(SettingsError, match="the module of a feed cannot be imported") as unknown:
        parse(tmp_path, type="no_such_module:Feed")
    assert unknown.value.where == f"{tmp_path / 'orders.toml'}: feed.type"


@pytest.mark.parametrize("name", ["${FEED}", "${MODULE}:SqliteFeed"])
def test_the_environment_loads_no_code(tmp_path: Path, name: str) -> None:
    environ = {"FEED": NAME, "MODULE": "examples.sqlite_feed"}
    with pytest.raises(SettingsError, match="type"):
        parse(tmp_path, environ, type=name)
