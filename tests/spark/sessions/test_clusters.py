"""Java reads on executors that are processes of their own. All packages come from the zip, and so does the jar."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sparkhaven.testing import make_table
from tests.support.places import REPOSITORY
from tests.support.spark.place import PATIENCE, SUBMIT, Place

pytestmark = pytest.mark.spark

NAME = "NS.T"
DAYS = [f"2026-11-{day}" for day in range(20, 24)]
SUMS = [[None, 3 * len(DAYS)], ["a", len(DAYS)], ["b", 2 * len(DAYS)]]
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.executor.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def test_every_way_to_read_is_javas_on_each_executor(tmp_path: Path) -> None:
    place, root = Place.make(tmp_path), tmp_path / "the root[1]{2}%20"
    for day in DAYS:
        make_table(root, NAME, {"N": [1, 2, 3], "Sym": ["a", "b", None]}, date=day)
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    job = [str(REPOSITORY / "tests/support/spark/reading_job.py"), str(root), NAME, str(tmp_path / "scratch")]
    command = [SUBMIT, "--master", "local-cluster[2,1,512]", "--py-files", place.zip, *conf, *job]
    done = subprocess.run(
        command, cwd=tmp_path, env=place.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert len(seen["found"]) == 5
    assert {way: found for way, found in seen["found"].items() if found != ["Java", SUMS]} == {}
    executors = {name: count for name, count in seen["tasks"].items() if name != "driver"}
    assert len(executors) == 2 and all(executors.values())
    assert seen["errors"]["auto"] == seen["errors"]["python"] and seen["errors"]["auto"][0] == "TableNotFoundError"
    assert "Spark reads tables by Python" not in done.stdout
