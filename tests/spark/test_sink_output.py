"""The output of Spark's own streaming file sink: the feed sees the files that ``spark.read`` sees."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.io.fs import Fs
from tests.support.spark.one_session import shared_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = shared_session()
    before = found.conf.get("spark.sql.streaming.fileSink.log.compactInterval")
    found.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    yield found
    found.conf.set("spark.sql.streaming.fileSink.log.compactInterval", str(before))


def planner(path: Path) -> FilePlanner:
    return FilePlanner(Fs(), FilesOptions(str(path), "parquet"), FileWindow(), lambda: 1e10)


def test_batches_compact_batches_and_leftovers(spark: SparkSession, tmp_path: Path) -> None:
    feed, out, checkpoint = tmp_path / "feed", tmp_path / "out a%b", tmp_path / "checkpoint"
    feed.mkdir()
    listing, taken = planner(out / "**" / "*.parquet"), set[str]()
    for number in range(5):
        (feed / f"{number}.json").write_text(json.dumps({"Sym": f"a b/{number % 2}", "Qty": number}) + "\n")
        frame = spark.readStream.schema("Sym string, Qty long").json(f"file:{feed}").coalesce(1)
        query = (
            frame.writeStream.format("parquet").partitionBy("Sym").option("checkpointLocation", f"file:{checkpoint}")
        )
        query.trigger(availableNow=True).start(f"file:{out}").awaitTermination()
        left = next(out.rglob("*.parquet"))
        shutil.copy(left, left.with_name(f"part-left-{number}.parquet"))
        taken |= {file.path for file in listing.plan().files}
        rows = spark.read.parquet(f"file:{out}")
        assert rows.count() == number + 1
        seen = {unquote(uri.removeprefix("file://")) for uri in rows.inputFiles()}
        assert taken == seen == {file.path for file in planner(out / "**" / "*.parquet").plan().files}
    assert [*(out / "_spark_metadata").glob("*.compact")] != []
