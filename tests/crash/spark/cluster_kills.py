"""A standalone cluster that breaks under jobs: ``python -m tests.crash.spark.cluster_kills [--kills N] [--seed N]``.

A master and two workers of one core, and ``ingest`` under spark-submit over a feed of files, large enough that the
executors read them and not the driver. Each round feeds files and breaks something at a random moment: an executor or a
whole worker is killed, the master is killed and started again, or a worker is cut off, with all that runs on it, until
the cluster has given it up, and then comes back. After each round the table must have every row once. SIGTERM ends the
job in the middle of a batch, which must be there then. At the end the dates are merged on the same cluster, with
executors killed meanwhile, and history must have the same rows.

The jobs are submitted with speculation, which they turn off, and with ``--dynamic`` under dynamic allocation: executors
come with each batch and go after it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from tests.crash.chaos.faults import kill, processes
from tests.support.servers.cluster import Cluster, Daemon
from tests.support.spark.place import PATIENCE, ROWS, Place

TABLE = "Nyc13.Flight"
FILES = 4  # of a round, in one batch
WIDTH = 1 << 16  # of a line: so a batch is too large for the driver
LOST = 8  # seconds after which Spark gives up what does not answer
CUT = 2.0 * LOST
CONF = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": f"{LOST}s",
    "spark.network.timeoutInterval": "2s",
    "spark.task.maxFailures": "20",
    "spark.speculation": "true",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.executor.cores": "1",
}
MERGE_KILLS = 3  # at most; a merge is short
KINDS = ("executor", "worker", "master", "cut off")


@dataclass(slots=True)
class Tally:
    """What a campaign has done: kills by kind, and how often a job had to be started again.

    ``tasks``: of the batch with most of them; ``executors``: all that the cluster has started.
    """

    kills: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    rows: int = 0
    tasks: int = 0
    executors: int = 0

    @property
    def total(self) -> int:
        """All kills."""
        return sum(self.kills.values())

    def note(self, kind: str) -> None:
        """Counts one."""
        self.kills[kind] = self.kills.get(kind, 0) + 1


class Breakage:
    """The cluster, the job on it and the feed."""

    def __init__(
        self, place: Place, cluster: Cluster, chance: random.Random, tally: Tally, conf: Mapping[str, str]
    ) -> None:
        self._place, self._cluster, self._chance, self._tally = place, cluster, chance, tally
        self._fed = 0
        self._scratch = Layout(place.root).scratch(TableName.parse(TABLE), "flights")
        words = (word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))
        self._options = ("--master", cluster.url, *words)
        self._log = place.base / "job.log"
        self._feed()
        self._job = self._start()
        self._wait()

    def close(self) -> None:
        """Ends the job in the middle of a batch, by SIGTERM to spark-submit; the batch must be there."""
        self._feed()
        self._until(lambda: self._runs_a_batch() or self._count() == self._fed * ROWS)
        if self._terminated() == 3:  # no executor came for the batch: a restart takes it
            assert "no executor ran the tasks" in self._said(), self._said()
            self._tally.restarts += 1
            self._job = self._start()
            self._wait()
            assert self._terminated() == 0, f"SIGTERM does not end a job that has nothing to do: {self._said()}"
        found = self._count()
        assert found == self._fed * ROWS, f"lost: {found} rows of {self._fed * ROWS} after SIGTERM"

    def _terminated(self) -> int:
        """Ends the job by SIGTERM; its exit code, 0 or 3."""
        self._job.send_signal(signal.SIGTERM)
        code = self._ended(self._job)
        assert code in (0, 3), f"SIGTERM ended the job with {code}: {self._said()}"
        return code

    def _ended(self, job: subprocess.Popen[str]) -> int:
        """Waits for the end of a job; its exit code."""
        self._until(lambda: job.poll() is not None)
        return job.returncode

    def round(self, kind: str) -> None:
        """Feeds, breaks, and waits until every row is there once."""
        self._feed()
        time.sleep(self._chance.uniform(0.0, 2.5))
        self._break(kind)
        self._tally.note(kind)
        self._wait()
        self._tally.rows = self._fed * ROWS
        print(f"kill {self._tally.total}: {kind}; {self._tally.rows:,} rows, each once", flush=True)

    def merge(self) -> None:
        """Merges all dates while executors are killed; a merge that could not go on is run again."""
        before = rows(self._place.root, "intraday")
        for attempt in range(10):
            job = self._place.submit("merge_dates", TABLE, "--closed", options=self._options, log=self._log)
            while job.poll() is None and attempt < MERGE_KILLS:
                if found := self._executors():
                    time.sleep(self._chance.uniform(0.0, 2.0))
                    if kill(self._chance.choice(found)):
                        self._tally.note("executor of a merge")
                    break
                time.sleep(0.05)
            code = self._ended(job)
            if code == 0:
                break
            assert code == 3, f"the merge ended with {code}: {self._said()}"
            self._tally.restarts += 1
        assert rows(self._place.root, "history") == before, "lost or doubled rows in history"
        report = verify(Fs(), Layout(self._place.root), deep=True)
        assert not report.errors, f"torn: {report.findings[:3]}"

    def _feed(self) -> None:
        self._place.put_together(range(self._fed, self._fed + FILES), width=WIDTH)
        self._fed += FILES

    def _break(self, kind: str) -> None:
        workers = self._cluster.workers
        if kind == "executor":
            self._until(lambda: bool(self._executors()))  # a former one is being replaced
            kill(self._chance.choice(self._executors()))
        elif kind == "master":
            self._cluster.master.stop(signal.SIGKILL)
            time.sleep(self._chance.uniform(0.0, 3.0))
            self._cluster.start_master()
        elif kind == "worker":
            gone = workers.pop(self._chance.randrange(len(workers)))
            self._all_of(gone, signal.SIGKILL)
            gone.stop(signal.SIGKILL)
            self._cluster.start_worker()
        else:
            worker = self._chance.choice(workers)
            self._all_of(worker, signal.SIGSTOP)
            time.sleep(CUT)
            self._all_of(worker, signal.SIGCONT)

    def _executors(self) -> list[int]:
        return [
            process.pid
            for worker in self._cluster.workers
            for process in processes(worker.pid)
            if "CoarseGrainedExecutorBackend" in process.command and process.command.split(" ")[0].endswith("java")
        ]

    @staticmethod
    def _all_of(worker: Daemon, number: int) -> None:
        """A signal to a worker and to all that it has started, as if it were to its machine."""
        for process in processes(worker.pid):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _wait(self) -> None:
        wanted = self._fed * ROWS

        def all_there() -> bool:
            found = self._count()
            assert found <= wanted, f"doubled: {found} rows of {wanted}"
            if found < wanted and (code := self._job.poll()) is not None:
                assert code == 3, f"the job ended with {code}: {self._said()}"
                self._tally.restarts += 1
                self._job = self._start()
            return found == wanted

        self._until(all_there)
        with suppress(FileNotFoundError):  # after a restart, until there is a batch
            plan = json.loads((self._scratch / "planned.json").read_text(encoding="utf-8"))
            self._tally.tasks = max(self._tally.tasks, len({row["task"] for row in plan["rows"]}))

    def _until(self, done: Callable[[], bool]) -> None:
        """Waits as long as rows come, or somebody writes into a log."""
        seen, since = self._signs(), time.monotonic()
        while not done():
            if (signs := self._signs()) != seen:
                seen, since = signs, time.monotonic()
            assert time.monotonic() - since < PATIENCE, f"nothing goes on: {self._count()} rows; {self._said()}"
            time.sleep(0.2)  # a look opens the table, on cores that the job needs

    def _signs(self) -> tuple[int, int]:
        base = self._place.base
        logs = [self._log, *base.glob("cluster/*.log"), *base.glob("cluster/work-*/app-*/*/stderr")]
        return self._count(), sum(log.stat().st_size for log in logs if log.exists())

    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8")[-2000:]

    def _count(self) -> int:
        try:
            return open_table(self._place.root, TABLE).count()
        except TableNotFoundError:  # before the first batch
            return 0

    def _runs_a_batch(self) -> bool:
        return any(self._scratch.glob("*/open"))

    def _start(self) -> subprocess.Popen[str]:
        return self._place.submit("ingest_stream", str(self._place.stream), options=self._options, log=self._log)


def rows(root: Path, tier: str) -> list[str]:
    """All rows of a tier as text, in an order of their own."""
    found = open_table(root, TABLE).to_arrow(tier=tier, dictionaries=False)
    return sorted(map(repr, found.to_pylist()))


@contextmanager
def broken_cluster(base: Path, seed: int, *, dynamic: bool = False) -> Iterator[tuple[Breakage, Tally]]:
    """A cluster with a running job below an empty directory."""
    tally = Tally()
    # a worker that was given up comes back by itself, and executors may be replaced without end
    options = f"-Dspark.worker.timeout={LOST} -Dspark.deploy.maxExecutorRetries=-1"
    with Place.of(base) as place, Cluster(base / "cluster", place.environ, options=options) as cluster:
        yield Breakage(place, cluster, random.Random(seed), tally, CONF | (DYNAMIC if dynamic else {})), tally
        tally.executors = len([*(base / "cluster").glob("work-*/app-*/*/stderr")])


def run_campaign(base: Path, kills: int, seed: int, *, kinds: Sequence[str] = KINDS, dynamic: bool = False) -> Tally:
    """So many rounds over these kinds in turn, then a merge. AssertionError: rows were lost, doubled or torn."""
    with broken_cluster(base, seed, dynamic=dynamic) as (breakage, tally):
        for number in range(kills):
            breakage.round(kinds[number % len(kinds)])
        breakage.close()
        breakage.merge()
    return tally


def main() -> int:
    """Runs it and prints what came of it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dynamic", action="store_true", help="under dynamic allocation")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as directory:
        print(run_campaign(Path(directory), given.kills, given.seed, dynamic=given.dynamic))
    return 0


if __name__ == "__main__":
    sys.exit(main())
