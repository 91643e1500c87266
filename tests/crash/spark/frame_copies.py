"""Executors are killed under frames: ``python -m tests.crash.spark.frame_copies [--rounds N] [--seed N]``.

Spark's own little cluster on this machine, two executors of two cores. Each round writes a frame behind a shuffle. Its
first tasks have read all their rows and are held; one executor is killed with SIGKILL, in some rounds a second one
later. The lost shuffle files make Spark repeat the stage, so tasks run beside earlier attempts of themselves, which
were never asked to end, and the workers of the killed executor live on for a while too. All attempts are released in an
order of chance: earlier ones first, later ones first, or earlier ones after the batch or in the midst of the next. Each
has its rows in another order, as a shuffle may give them. After each round every row must be there once, every checksum
right, and strings those of their rows.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from sparkhaven.jobs.dataframes.frame_writer import write_frame
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.crash.spark.sink_job import SCHEMA
from tests.support.spark.quick_java import quick_java
from tests.support.streams.stream_kit import STREAM, TABLE, record

Enough = Callable[[dict[int, tuple[int, int]]], bool]
ROWS, PARTITIONS, SLOTS = 240, 6, 4
PATIENCE = 300.0
ORDERS = ("earlier first", "later first", "earlier late", "mixed")
DDL = "Src string, Date string, N bigint, Sym string, Note string"
CONF = {
    "spark.executor.memory": "512m",
    "spark.sql.adaptive.enabled": "false",  # so many tasks as there are partitions
    "spark.network.timeout": "60s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.stage.maxConsecutiveAttempts": "20",
    "spark.task.maxFailures": "20",
    "spark.ui.enabled": "false",
}


@dataclass(slots=True)
class Tally:
    """What a campaign has done. ``repeated``: tasks of which two attempts were held at once."""

    rounds: int = 0
    kills: int = 0
    repeated: int = 0


def held(control: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads all rows of a task, says so in ``control``, and hands them on once this attempt is released."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.taskAttemptId()
    rows = [row for batch in batches for row in batch.to_pylist()]
    random.Random(attempt).shuffle(rows)
    executor = _parent(os.getppid())  # the parent of the daemon that forks the workers
    with suppress(FileNotFoundError):  # of a round that has ended
        (control / f"new-{attempt}").write_text(f"{context.partitionId()} {executor}")
        (control / f"new-{attempt}").rename(control / f"reached-{attempt}")
    last = time.monotonic() + PATIENCE
    while control.exists() and not (control / f"go-{attempt}").exists() and time.monotonic() < last:
        time.sleep(0.01)
    for start in range(0, len(rows), 7):
        yield pa.RecordBatch.from_pylist(rows[start : start + 7], schema=batches_schema())


def batches_schema() -> pa.Schema:
    """That of ``DDL``."""
    return pa.schema(
        [(name, pa.int64() if name == "N" else pa.string()) for name in ("Src", "Date", "N", "Sym", "Note")]
    )


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def session() -> SparkSession:
    """A cluster of two executors on this machine, whose JVMs start as that of the driver does."""
    quick = {"spark.executor.extraJavaOptions": quick_java()["JDK_JAVA_OPTIONS"]}
    spark = build_session("frame-copies", extra={"spark.master": f"local-cluster[2,{SLOTS // 2},512]", **CONF, **quick})
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Round:
    """One frame, its held attempts and the executors that are killed under it."""

    def __init__(self, base: Path, number: int, order: str, chance: random.Random, tally: Tally) -> None:
        self.control = base / f"control-{number}"
        self.control.mkdir()
        self.number, self.order, self._chance, self._tally = number, order, chance, tally
        self.waiting: list[int] = []  # attempts that are released after the batch
        self.error: BaseException | None = None
        self._ended = threading.Event()

    def frame(self, spark: SparkSession) -> DataFrame:
        first = self.number * ROWS
        rows = [record(n, "abc"[n % 3], "2026-11-20") for n in range(first, first + ROWS)]
        made = spark.createDataFrame([tuple(row[name] for name in batches_schema().names) for row in rows], DDL)
        return made.repartition(4).repartition(PARTITIONS, "N").mapInArrow(partial(held, self.control), DDL)

    def write(self, spark: SparkSession, root: Path) -> None:
        """Writes the frame, while a thread kills and lets go."""
        thread = threading.Thread(target=self._stir)
        thread.start()
        try:
            write_frame(
                self.frame(spark),
                root,
                str(TABLE),
                STREAM,
                label=f"round {self.number}",
                internal="Src",
                value={"fixed": "2026-11-20"},
                schema=SCHEMA,
                ignore=["Date"],
            )
        finally:
            self._ended.set()
            thread.join()
        if self.error is not None:
            raise self.error

    def let_go(self, attempt: int) -> None:
        with suppress(FileNotFoundError):
            (self.control / f"go-{attempt}").touch()

    def _stir(self) -> None:
        try:
            self._kill_and_let_go()
        except BaseException as error:
            self.error = error
            for attempt in self._reached():
                self.let_go(attempt)

    def _kill_and_let_go(self) -> None:
        first = self._wait(lambda found: len(found) >= SLOTS)
        victims = sorted({executor for _, executor in first.values()})
        victim = self._chance.choice(victims)
        os.kill(victim, signal.SIGKILL)
        self._tally.kills += 1
        kept = {attempt: place for attempt, (place, executor) in first.items() if executor != victim}
        # the lost tasks begin again, find shuffle files gone, and the stage is repeated beside those that are kept;
        # where the other executor had written all shuffle files, only the lost tasks are repeated
        repeated = self._wait(
            lambda found: any(place in kept.values() for attempt, (place, _) in found.items() if attempt not in first),
            least=lambda found: len(found) > len(first),
        )
        again = [a for a, (place, _) in repeated.items() if a not in first and place in kept.values()]
        self._tally.repeated += len(again)
        order = self.order if again else "earlier first"  # what was not repeated has no later attempt
        lost = [a for a, (_, executor) in first.items() if executor == victim]
        early = [*kept, *lost]
        self._chance.shuffle(early)
        if order == "earlier first":
            self._spread(early)
        elif order == "mixed":
            self._spread(self._chance.sample(early, len(early) // 2))
        done: set[int] = set(early)
        while not self._ended.wait(0.02):
            for attempt in self._reached():
                if attempt not in done:
                    self._spread([attempt])
                    done.add(attempt)
            if order == "later first" and self._chance.random() < 0.1:
                self._spread(early)
        self.waiting = early

    def _spread(self, attempts: list[int]) -> None:
        for attempt in attempts:
            time.sleep(self._chance.uniform(0, 0.1))
            self.let_go(attempt)

    def _reached(self) -> dict[int, tuple[int, int]]:
        """Attempts that have all their rows: partition and executor."""
        found = {}
        for path in self.control.glob("reached-*"):
            place, executor = path.read_text().split()
            found[int(path.name.partition("-")[2])] = int(place), int(executor)
        return found

    def _wait(self, enough: Enough, least: Enough = lambda found: False) -> dict[int, tuple[int, int]]:
        """What was reached, once it is enough; after a while also if it is the ``least``."""
        begun = time.monotonic()
        while not enough(found := self._reached()):
            waited = time.monotonic() - begun
            if waited > PATIENCE / 10 and least(found):
                break
            assert waited < PATIENCE, f"no such attempts: {found}"
            assert not self._ended.is_set(), f"the frame was written before: {found}"
            time.sleep(0.01)
        return found


def check(root: Path, rounds: int) -> None:
    """Every row once, with its own values, and nothing damaged."""
    rows = open_table(root, str(TABLE)).to_arrow().to_pylist()
    numbers = sorted(row["N"] for row in rows)
    assert numbers == [*range(rounds * ROWS)], f"{len(numbers)} rows, {len(set(numbers))} of them different"
    mixed = [row for row in rows if any(row[name] != record(row["N"])[name] for name in ("Sym", "Note"))]
    assert not mixed, f"values of other rows: {mixed[:3]}"
    wrong = [found for found in verify(Fs(), Layout(root), deep=True).findings if found.severity == "error"]
    assert not wrong, f"damaged: {wrong[:4]}"


def run_campaign(base: Path, rounds: int, seed: int, orders: Sequence[str] = ORDERS) -> Tally:
    """Rounds on one cluster; attempts that are still held at the end of a round are released within the next."""
    chance, tally, root = random.Random(seed), Tally(), base / "db"
    root.mkdir()
    spark = session()
    late: list[Any] = []
    try:
        for number in range(rounds):
            this = Round(base, number, chance.choice(orders), chance, tally)
            this.write(spark, root)
            tally.rounds += 1
            check(root, tally.rounds)
            for earlier in late:
                for attempt in earlier.waiting:
                    earlier.let_go(attempt)
            check(root, tally.rounds)
            late = [this]
            print(f"round {number}: {this.order}, tasks repeated so far {tally.repeated}", flush=True)
        for earlier in late:
            for attempt in earlier.waiting:
                earlier.let_go(attempt)
        check(root, tally.rounds)
    finally:
        spark.stop()
    return tally


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kills executors under frames with a shuffle.")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(run_campaign(Path(directory), given.rounds, given.seed))
    sys.exit(0)
