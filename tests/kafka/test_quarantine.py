"""Bad messages of a real topic into a real Delta, and back into the table once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from tests.support.kafka.ticks import ids, stream_file, tick, ticks
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker
from tests.support.spark.one_session import one_session

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.spark]


def run(root: Path, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["--root", str(root), *words, "--json"])
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def spark() -> Iterator[None]:
    """The commands share a session."""
    with one_session():
        yield


def test_bad_messages_are_set_aside_and_sent_again(broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(broker.bootstrap, 2)
    send(broker.bootstrap, topic, [tick(0), b'{"Id":', tick(1)], 0)
    send(broker.bootstrap, topic, [tick(2), tick(3), b'{"Id":1e30}', *ticks(range(4, 6))], 1)
    path = stream_file(tmp_path, broker.bootstrap, f'topics = ["{topic}"]')
    path.write_text(path.read_text().replace("max_rows = 0", "max_rows = 10\nmax_fraction = 0.5"))
    root = tmp_path / "db"
    (first,) = run(root, "ingest", str(path), "--once")
    assert (first["rows"], first["rejected"]) == (6, 2)
    listed = run(root, "quarantine", "list", "Test.Tick", "ticks")
    assert [(row["source"], row["position"], row["reason"], row["payload"]) for row in listed] == [
        (f"{topic}/0", 1, "not-json", '{"Id":'),
        (f"{topic}/1", 2, "overflow", '{"Id":1e30}'),
    ]
    file = tmp_path / "rows.jsonl"
    mended = [row | {"payload": tick(100 + n).decode()} for n, row in enumerate(listed)]
    file.write_text("".join(json.dumps(row) + "\n" for row in mended))
    (sent,) = run(root, "quarantine", "requeue", "Test.Tick", "ticks", "--from", str(file))
    assert (sent["sent"], sent["refused"]) == (2, 0)
    assert ids(tmp_path) == [0, 1, 100, 2, 3, 4, 5, 101]
    send(broker.bootstrap, topic, [tick(7)], 0)
    (last,) = run(root, "ingest", str(path), "--once")
    assert (last["rows"], last["positions"]) == (1, {f"{topic}/0": 4, f"{topic}/1": 5})
    assert ids(tmp_path) == [0, 1, 100, 7, 2, 3, 4, 5, 101]
