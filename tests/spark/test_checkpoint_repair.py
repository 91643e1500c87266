"""Spark's checkpoint of a real query after a power cut: found by ``checkpoint repair``, mended, and exactly once again.

The query is of the kind that keeps its checkpoint: Spark's own source into ``deephaven_writer``, with positions and
known by query, batch and digest alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from tests.support.spark.frames import STREAM, TABLE, epochs, numbers, put, rolled_back, run, source, writer

pytestmark = pytest.mark.spark

NEWEST = ("offsets/2", "commits/2", "sources/0/2")  # of the last batch
DAMAGES = ("nothing", "empty", "zeros", "missing", "ahead", "files lost", "all empty")
SILENT = ("nothing", "missing")  # Spark starts, and what it then does is right with positions only


def content(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def repair(root: Path, checkpoint: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the command."""
    names = [str(checkpoint), str(TABLE), STREAM, "--json", *more]
    done = CliRunner().invoke(app, ["--root", str(root), "checkpoint", "repair", *names])
    return done.exit_code, json.loads(done.stdout)


def damage(root: Path, checkpoint: Path, how: str) -> None:
    """What a power cut leaves: Spark renames and syncs nothing, so new names are empty or not there."""
    if how == "ahead":
        rolled_back(root, 1)  # the commit log of mode ``periodic`` may lose its end while Spark's entries survive
    if how == "files lost":
        rolled_back(root, 2)
        (checkpoint / "commits/2").unlink()
        (checkpoint / "sources/0/2").write_bytes(b"")
    for name in content(checkpoint) if how == "all empty" else ("metadata", *NEWEST):
        path = checkpoint / name
        if how == "missing":
            path.unlink()
        elif how in ("empty", "zeros", "all empty"):
            path.write_bytes(b"" if how != "zeros" else b"\0" * path.stat().st_size)
        if how in ("empty", "zeros", "missing"):
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.campaign
@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("placed", [True, False], ids=["positions", "batches"])
def test_a_torn_checkpoint_is_mended(spark: SparkSession, tmp_path: Path, how: str, placed: bool) -> None:
    feed, root, checkpoint = tmp_path / "feed", tmp_path / "db", tmp_path / "checkpoint"
    for number in range(3):
        put(feed, str(number), range(number * 5, number * 5 + 5), (0, number * 5) if placed else None)
    run(source(spark, feed, placed=placed), writer(root, placed=placed), checkpoint)
    assert (numbers(root), epochs(root)) == ([*range(15)], 3)
    put(feed, "3", range(15, 20), (0, 15) if placed else None)
    damage(root, checkpoint, how)
    before = content(checkpoint)

    code, report = repair(root, checkpoint)
    assert (code, report["repaired"], content(checkpoint)) == (int(how != "nothing"), False, before)
    if how not in SILENT:
        with pytest.raises((PySparkException, Py4JJavaError)):
            run(source(spark, feed, placed=placed), writer(root, placed=placed), checkpoint)
        assert len(numbers(root)) == {"ahead": 5, "files lost": 10}.get(how, 15)

    before = content(checkpoint)
    code, report = repair(root, checkpoint, "--repair")
    assert (code, report["repaired"]) == (0, how != "nothing"), report
    if how != "nothing":
        assert content(Path(report["backup"])) == before
    assert repair(root, checkpoint)[0] == 0
    run(source(spark, feed, placed=placed), writer(root, placed=placed), checkpoint)
    assert numbers(root) == [*range(20)]
