"""Topics into several tables, from a broker: in Spark, after a kill between the commits of two tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparkhaven.jobs.streams.runners import SparkRunner
from sparkhaven.store.io.fs import Fs
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.ingest.several_tables import COLUMNS, Row, read, rows, stored
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker
from tests.support.streams.table_runs import TableRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.spark]
TABLES = list(COLUMNS)


def payloads(some: Sequence[Row]) -> list[bytes]:
    return [json.dumps(row).encode() for row in some]


def feed_of(broker: Broker, topics: Sequence[str]) -> str:
    return f'type = "kafka"\nbootstrap = "{broker.bootstrap}"\ntopics = {json.dumps(topics)}\nformat = "json"'


def require(root: Path, expected: Sequence[Row], tables: Sequence[str] = TABLES) -> None:
    assert {table: read(root, table) for table in tables} == {table: stored(expected, table) for table in tables}


def test_a_topic_feeds_three_tables_through_a_kill(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, every = make_topic(broker.bootstrap, 2), rows(0, 60)
    send(broker.bootstrap, topic, payloads(every[:40:2]), 0)
    send(broker.bootstrap, topic, payloads(every[1:40:2]), 1)
    runs = TableRuns(tmp_path, "kafka", TABLES, feed_of(broker, [topic]))
    with pytest.raises(Crash):
        runs.run(CrashingFs(crash_at="commit-record:before", occurrence=2), tmp_path / "db", 16)
    send(broker.bootstrap, topic, payloads(every[40:]), 0)
    runs.runner = SparkRunner(spark)
    done = runs.run(Fs(), tmp_path / "db", 1000)
    require(tmp_path / "db", every)
    assert done[0] < done[1] == 20  # the first table had committed its part of a batch


def test_topics_are_routed_without_a_look_at_their_messages(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    trades, quotes = make_topic(broker.bootstrap), make_topic(broker.bootstrap)
    send(broker.bootstrap, trades, payloads(rows(0, 9, "T")), 0)
    send(broker.bootstrap, quotes, payloads(rows(9, 15, "Q")), 0)
    where = {"Md.Trade": f'where = {{ topic = "{trades}" }}', "Md.Quote": f'where = {{ topic = "{quotes}" }}'}
    feed = feed_of(broker, [trades, quotes])
    runs = TableRuns(tmp_path, "kafka", TABLES[:2], feed, where, SparkRunner(spark))
    assert runs.run(Fs(), tmp_path / "db", 1000) == [9, 6]
    require(tmp_path / "db", [*rows(0, 9, "T"), *rows(9, 15, "Q")], TABLES[:2])
    assert runs.run(Fs(), tmp_path / "db", 1000) == [0, 0]
