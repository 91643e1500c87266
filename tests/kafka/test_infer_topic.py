"""A schema and a stream file from the newest messages of a real topic, and the topic read with them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import SILENT, route
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.testing.planned_contract import Planner
from tests.support.ingest.inferring import ok
from tests.support.kafka.topics import make_topic, send
from tests.support.servers.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.jvm]


def test_a_topic_is_read_with_what_was_inferred(tmp_path: Path, broker: Broker) -> None:
    topic = make_topic(broker.bootstrap, 2)
    for partition in (0, 1):
        rows = [
            {"sym": "AB"[n % 2] * 2, "trade": {"px": n / 2, "id": n}, "tags": [n] if n % 3 else None} for n in range(60)
        ]
        send(broker.bootstrap, topic, [json.dumps(row) for row in rows], partition)
    feed = tmp_path / "feed.toml"
    feed.write_text(f'[feed]\ntype = "kafka"\nbootstrap = "{broker.bootstrap}"\ntopics = ["{topic}"]\n')
    file = tmp_path / "E.Tick.schema"
    file.write_text(ok("schema", "infer", str(feed), "--table", "E.Tick", "--rows", "50"))
    assert "inferred from 50 rows" in file.read_text()
    ok("schema", "new", str(file), str(feed), "--name", "ticks")
    settings = load_stream_file(Fs(), tmp_path / "ticks.toml", os.environ)
    schema = checked_schema(Fs(), settings)
    kinds = {column.name: column.type.name for column in schema.stored}
    assert kinds["trade__px"] == "double" and kinds["trade__id"] == "long" and kinds["KafkaOffset"] == "long"
    rejects, rows_read = Rejects(SILENT), 0
    for batch in Planner(settings.feed, tmp_path / "db").rest():
        for split in batch:
            blocks = settings.feed.decode(Fs(), split, schema, rejects, time.time)
            rows_read += sum(routed.batch.num_rows for routed in route(blocks, rejects))
    assert (rejects.bad, rows_read) == (0, 120)
