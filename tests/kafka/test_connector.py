"""Spark's own Kafka connector through ``deephaven_writer``: killed, restarted, without its checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.kafka.topics import make_topic, send
from tests.support.processes import ended, wait_until
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.spark]

TABLE = TableName("Test", "Trade")
SECONDS = 300.0


def message(number: int) -> bytes:
    return json.dumps({"Id": number, "Text": f"é\n{number % 7}"}).encode()


def start(broker: Broker, topic: str, base: Path, how: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "tests.support.kafka.connector_job", broker.bootstrap, topic, str(base), how]
    return subprocess.Popen(line, cwd=import_root(), stdout=subprocess.PIPE, text=True, start_new_session=True)


def epoch(base: Path) -> int:
    try:
        return load_stream(StreamPlace(Fs(), Layout(base / "db"), TABLE, "connector")).epoch
    except TableNotFoundError:
        return 0


def test_killed_and_without_its_checkpoint_each_message_is_stored_once(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.bootstrap, 2)
    for partition in (0, 1):
        send(broker.bootstrap, topic, [message(2 * n + partition) for n in range(400)], partition)
    with ended(start(broker, topic, tmp_path, "endless")) as job:  # with workers and the JVM
        assert wait_until(lambda: epoch(tmp_path) >= 3 or job.poll() is not None, SECONDS) and job.poll() is None
    assert 3 <= epoch(tmp_path) < 8, "it was to be killed on the way"
    send(broker.bootstrap, topic, [None, message(800)])

    with ended(start(broker, topic, tmp_path, "once")) as job:
        reported, _ = job.communicate(timeout=SECONDS)
        assert job.returncode == 0
    first, second = reported.split("\n")[:2]
    assert first == second, "from the earliest offsets again, without a checkpoint: nothing new"

    table = open_table(tmp_path / "db", "Test.Trade").to_arrow().to_pylist()
    by_partition = {n: [row for row in table if row["KafkaPartition"] == n] for n in (0, 1)}
    for partition, rows in by_partition.items():
        more = [None, 800] if partition == 0 else []
        assert [row["Id"] for row in rows] == [*range(partition, 800, 2), *more]
        assert [row["KafkaOffset"] for row in rows] == [*range(len(rows))]
    stored = by_partition[0][7]
    assert (stored["Text"], stored["Raw"]) == ("é\n0", message(14).decode())
    assert by_partition[0][-2]["Raw"] is None  # a message without a value is a row
    state = load_stream(StreamPlace(Fs(), Layout(tmp_path / "db"), TABLE, "connector"))
    assert state.offsets.positions() == {f"{topic}/0": 402, f"{topic}/1": 400}
    assert [f for f in verify(Fs(), Layout(tmp_path / "db"), TABLE, deep=True).findings if f.severity == "error"] == []
