"""A cluster that has no executor for a stream: SIGTERM ends the stream all the same, and it says why."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.layout import Layout, TableName
from tests.crash.chaos.faults import kill_all
from tests.support.examples import share_of
from tests.support.processes import wait_until
from tests.support.servers.cluster import Cluster
from tests.support.spark.place import PATIENCE, ROWS, Place

pytestmark = pytest.mark.spark

TABLE = "Nyc13.Flight"
WIDTH = 1 << 17  # of a line: so a batch is too large for the driver
CONF = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def test_a_stream_without_executors_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    """In the middle of a batch, and where examples are not left out before the first; the next start goes on."""
    with Place.of(tmp_path) as place, Cluster(tmp_path / "cluster", place.environ, workers=0) as cluster:
        conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        options, log = ("--master", cluster.url, *conf), tmp_path / "job.log"
        scratch = Layout(place.root).scratch(TableName.parse(TABLE), "flights")

        def said() -> str:
            return log.read_text(encoding="utf-8")

        def count() -> int:
            try:
                return open_table(place.root, TABLE).count()
            except TableNotFoundError:  # before the first batch
                return 0

        place.put_together(range(2), width=WIDTH)
        if share_of(2, 1) == 2:
            job = place.submit("ingest_stream", str(place.stream), options=options, log=log)
            wait_until(lambda: "no executor" in said() or job.poll() is not None, PATIENCE, said, every=0.2)
            job.send_signal(signal.SIGTERM)
            assert job.wait(PATIENCE) == 3, said()
            assert "no executor ran the tasks" in said() and count() == 0

        worker = cluster.start_worker()
        job = place.submit("ingest_stream", str(place.stream), options=options, log=log)
        wait_until(lambda: count() == 2 * ROWS or job.poll() is not None, PATIENCE, said, every=0.2)
        kill_all(worker.pid)
        worker.stop()
        place.put_together(range(2, 4), width=WIDTH)
        wait_until(lambda: any(scratch.glob("*/open")) or job.poll() is not None, PATIENCE, said, every=0.2)
        before = len(said())
        job.send_signal(signal.SIGTERM)
        assert job.wait(PATIENCE) == 3, said()
        assert "no executor ran the tasks" in said()[before:] and count() == 2 * ROWS
