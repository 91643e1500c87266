"""A table followed into another one, with kills at both ends: ``python -m tests.crash.spark.chain [--kills N]``.

One process appends a feed of files to a table, a file an epoch; a second one, a streaming query of
``readStream.format("deephaven")`` into ``deephaven_writer`` without positions, appends what it reads there to a table
below another root. Each round adds files and kills one of the two (SIGKILL to its process group) between any two of its
steps, starts it again, and waits until the second table has every row of the first: once.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import to_timestamp

from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer
from sparkhaven.jobs.dataframes.frames import register
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.spark.stream_query import stream_conf
from tests.crash.spark.sink_job import SCHEMA
from tests.support.places import REPOSITORY
from tests.support.processes import ended, kill_group, wait_until
from tests.support.streams.stream_kit import TABLE, put_file, record

ENDS = ("source", "follower")
FILES_A_ROUND = 8
ROWS_A_FILE = 40
PATIENCE = 300.0
PLAIN = "tests.support.streams.append_files"  # the first process, without Spark
SPARK = "tests.support.spark.stream_job"  # the same as a stream in Spark


@dataclass(slots=True)
class Tally:
    """Kills by the process that they hit, and rows at the end."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    rows: int = 0


class Chain:
    """The feed, two tables and two processes. ``source``: the module that appends, ``PLAIN`` or ``SPARK``."""

    def __init__(self, base: Path, chance: random.Random, source: str = PLAIN) -> None:
        self._chance, self._module, self.tally = chance, source, Tally()
        self._feed, self._first, self._second = base / "feed", base / "first", base / "second"
        self._first.mkdir()
        deploy(Fs(), Layout(self._first), SCHEMA)  # which the streams of these tests do not do
        self._log, self._files = base / "follower.log", 0
        self._add()
        self._run_source()
        self._follower = self._follow()
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def round(self, end: str) -> None:
        """Adds files, kills one end while both work on them, and waits for the rows."""
        self._add()
        if end == "source":
            with ended(self._start_source()) as source:
                self._after_epochs(source, self._chance.randrange(FILES_A_ROUND))
                time.sleep(self._chance.uniform(0.0, 0.01))
                self.tally.kills[end] += kill_group(source)
            self._run_source()
        else:
            seen = self._count()
            with ended(self._start_source()) as source:
                self._until(lambda: self._count() > seen or self._chance.random() < 0.05)
                time.sleep(self._chance.uniform(0.0, 0.3))
                self.tally.kills[end] += kill_group(self._follower)
                self._follower = self._follow()
                _end_well(source)
        self._wait()
        print(f"{end} killed; {self.tally.rows:,} rows, each once", flush=True)

    def close(self) -> None:
        """Ends the query, and compares the two tables. AssertionError: they differ."""
        self.stop()
        first, second = (
            sorted(map(repr, open_table(root, str(TABLE)).to_arrow(dictionaries=False).to_pylist()))
            for root in (self._first, self._second)
        )
        assert first == second, "torn: rows of the second table are not those of the first"
        for root in (self._first, self._second):
            found = verify(Fs(), Layout(root), deep=True)
            assert not found.errors, f"torn: {found.findings[:3]}"

    def stop(self) -> None:
        """Ends the query; may be called twice."""
        kill_group(self._follower)

    def _add(self) -> None:
        for number in range(self._files, self._files + FILES_A_ROUND):
            at = range(number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE)
            rows = [record(n, "abc"[n % 3], f"2026-11-{20 + n % 2}") for n in at]
            put_file(self._feed, f"{number:05}.json", rows, number + 1)
        self._files += FILES_A_ROUND

    def _run_source(self) -> None:
        """Runs it through: what a kill has left, and what it had not reached."""
        _end_well(self._start_source())

    def _start_source(self) -> subprocess.Popen[str]:
        return self._start(self._module, str(self._feed), str(self._first), "1", log=None)

    def _follow(self) -> subprocess.Popen[str]:
        return self._start("tests.crash.spark.chain", "--follow", str(self._first), str(self._second), log=self._log)

    def _start(self, module: str, *words: str, log: Path | None) -> subprocess.Popen[str]:
        with ExitStack() as opened:
            return subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdout=subprocess.PIPE if log is None else opened.enter_context(log.open("a", encoding="utf-8")),
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def _after_epochs(self, source: subprocess.Popen[str], count: int) -> None:
        """Until it has committed so many epochs."""
        assert source.stdout is not None
        while count and (line := source.stdout.readline()):
            count -= line.startswith("epoch")

    def _count(self) -> int:
        try:
            return open_table(self._second, str(TABLE)).count()
        except TableNotFoundError:  # before the first batch
            return 0

    def _wait(self) -> None:
        """Until the second table has the rows of all files."""
        wanted = self._files * ROWS_A_FILE
        self._until(lambda: self._count() >= wanted)
        numbers = open_table(self._second, str(TABLE)).to_arrow(columns=["N"]).column("N").to_pylist()
        assert len(numbers) == len(set(numbers)), f"doubled: {len(numbers)} rows, {len(set(numbers))} numbers"
        assert sorted(numbers) == [*range(wanted)], "lost: other rows than those of the files"
        self.tally.rows = wanted

    def _until(self, done: Callable[[], bool]) -> None:
        def said() -> str:
            return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]

        def holds() -> bool:
            assert self._follower.poll() is None, f"the query has ended: {said()}"
            return done()

        # a look opens the table, on cores that the query needs
        wait_until(holds, PATIENCE, lambda: f"lost: {self._count()} rows; {said()}", every=0.1)


def _end_well(process: subprocess.Popen[str]) -> None:
    with ended(process):
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said


def run_campaign(base: Path, kills: int, seed: int, source: str = PLAIN, ends: Sequence[str] = ENDS) -> Tally:
    """So many rounds over these ends in turn. AssertionError: rows were lost, doubled or torn."""
    chain = Chain(base, random.Random(seed), source)
    try:
        number = 0
        while sum(chain.tally.kills.values()) < kills:
            chain.round(ends[number % len(ends)])
            number += 1
        chain.close()
    finally:
        chain.stop()
    return chain.tally


def follow(first: Path, second: Path) -> None:
    """The query, until it is killed; says ``batch N`` after each."""
    spark = build_session("chain", workers=2, extra=stream_conf())
    register(spark)
    frame = spark.readStream.format("deephaven").option("root", str(first)).option("maxEpochsPerTrigger", 2)
    any_day = {"max_past": "36500 d", "max_future": "36500 d"}
    writer = deephaven_writer(second, str(TABLE), "copy", internal="Src", value="Date", bounds=any_day, schema=SCHEMA)

    def write(batch: DataFrame, number: int) -> None:
        writer(batch, number)
        print(f"batch {number}, epoch {writer.epoch}", flush=True)

    rows = frame.load(str(TABLE)).withColumn("Date", to_timestamp("Date"))
    query = rows.writeStream.foreachBatch(write)
    query.option("checkpointLocation", f"file:{second}.checkpoint").start().awaitTermination()


def main() -> int:
    """Runs the query, or the campaign."""
    if sys.argv[1:2] == ["--follow"]:
        follow(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chain-") as directory:
        print(run_campaign(Path(directory), given.kills, given.seed, SPARK))
    return 0


if __name__ == "__main__":
    sys.exit(main())
