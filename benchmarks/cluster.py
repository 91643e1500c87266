"""Ingest and merge on a standalone cluster of two workers of one core, against local mode with two cores, in one run.

Both are jobs under spark-submit with the same zip, settings and JVM options. Each round ingests a feed of JSON lines, a
date a trigger, and merges the dates, once in each mode, on the same cluster. Ingest: the median of all triggers after
the first ``--warm`` of each job, in which Python imports and three JVMs instead of one compile what they run often.
Merge: the median over the rounds from the first plan to the last published date, cold workers included. Speed is that
of the cluster over that of local mode: the goal is 90 %.

    python -m benchmarks.cluster [--rows 1000000] [--triggers 24] [--warm 8] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pyspark

from benchmarks.ingest_files import SCHEMA, STREAM, write_feed
from benchmarks.scratch import scratch
from sparkhaven.jobs.session.fast_start import python_launcher
from sparkhaven.jobs.session.spark_session import JVM_OPTIONS
from sparkhaven.jobs.session.submit_zip import write_zip
from sparkhaven.store.io.fs import Fs
from tests.support.places import REPOSITORY
from tests.support.servers.cluster import Cluster

SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
LOCAL, CLUSTER = "local mode, two cores", "cluster, two workers of one core"
CONF = {
    "spark.executor.memory": "800m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
EPOCH = re.compile(r"\bepoch \d+: [\d,]+ rows of ")
FILES = 2  # a trigger


class Mode:
    """Jobs of one mode."""

    def __init__(self, master: str, work: Path, environ: dict[str, str], warm: int) -> None:
        self._master, self._work, self._environ, self._warm = master, work, environ, warm
        self.ingest: list[float] = []
        self.merge: list[float] = []

    def round(self, root: Path) -> None:
        """Ingests the feed and merges its dates; adds the seconds of each warm trigger and of the merge, a date."""
        moments, _ = self._run("ingest_stream", root, str(self._work / "bench.toml"), "--once")
        self.ingest += [later - earlier for earlier, later in pairwise(moments[self._warm - 1 :])]
        _, results = self._run("merge_dates", root, "Bench.Trade", "--dates", "2026-11-01..2026-11-30", "--json")
        dates = [result["seconds"] for result in results if "date" in result]
        self.merge.append(max(dates) / len(dates))  # each counts from the beginning of all

    def _run(self, entry: str, root: Path, *words: str) -> tuple[list[float], list[dict[str, float]]]:
        """The moments at which epochs were reported, and the JSON objects of standard output."""
        conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        options = ["--master", self._master, "--py-files", str(self._work / "sparkhaven.zip"), *conf]
        command = [SUBMIT, *options, str(REPOSITORY / "jobs" / f"{entry}.py"), "--root", str(root), *words]
        output, moments = self._work / "said", []
        with (
            output.open("w+", encoding="utf-8") as out,
            subprocess.Popen(
                command, cwd=self._work, env=self._environ, stdout=out, stderr=subprocess.PIPE, text=True
            ) as job,
        ):
            assert job.stderr is not None  # noqa: S101 it is a pipe
            lines = []
            for line in job.stderr:
                lines.append(line)
                if EPOCH.search(line):
                    moments.append(time.perf_counter())
        if job.returncode:
            sys.exit(f"{entry} ended with {job.returncode}:\n{''.join(lines)[-4000:]}")
        printed = output.read_text(encoding="utf-8").splitlines()
        return moments, [json.loads(line) for line in printed if line.startswith("{")]


def make(work: Path, rows: int, triggers: int) -> None:
    """Feed, stream file, schema and zip. A trigger has the rows of the first with a date of its own."""
    write_feed(work / "first", rows // FILES, FILES)
    (work / "feed").mkdir()
    for index, path in enumerate(sorted((work / "first").iterdir())):
        text = path.read_bytes()
        for trigger in range(triggers):
            moved = text.replace(b"2026-11-21", b"2026-11-%02d" % (trigger + 1))
            (work / "feed" / f"{trigger:02}-{index}.json").write_bytes(moved)
    (work / "Bench.Trade.schema").write_text(SCHEMA, encoding="utf-8")
    stream = STREAM.replace("FORMAT", "json").replace("[bad_rows]", 'max_past = "60 d"\n[bad_rows]')
    (work / "bench.toml").write_text(stream, encoding="utf-8")
    write_zip(work / "sparkhaven.zip")


def main() -> None:
    """Prints medians and ratios."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a trigger and a date")
    parser.add_argument("--triggers", type=int, default=24, help="at most 30")
    parser.add_argument("--warm", type=int, default=8, help="triggers of each job before those that count")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with scratch() as work:
        make(work, args.rows, args.triggers)
        environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARKHAVEN_ROOT")}
        environ |= {"PYSPARK_PYTHON": python_launcher(Fs(), os.environ), "JDK_JAVA_OPTIONS": " ".join(JVM_OPTIONS)}
        with Cluster(work / "cluster", environ, memory="900m") as cluster:
            modes = {
                LOCAL: Mode("local[2]", work, environ, args.warm),
                CLUSTER: Mode(cluster.url, work, environ, args.warm),
            }
            for number in range(args.rounds):
                for name, mode in modes.items():
                    with tempfile.TemporaryDirectory(dir=work) as root:
                        mode.round(Path(root) / "db")
                    print(f"round {number + 1}, {name}", file=sys.stderr, flush=True)
    print(f"\n{args.rows:,} rows a trigger and a date, {args.rounds} rounds; seconds per 1 M rows")
    for work_kind in ("ingest", "merge"):
        times = {name: getattr(mode, work_kind) for name, mode in modes.items()}
        medians = {name: statistics.median(seconds) / args.rows * 1e6 for name, seconds in times.items()}
        for name, median in medians.items():
            listed = " ".join(f"{seconds:.2f}" for seconds in times[name])
            print(f"{work_kind:8}{name:36}{median:8.2f}{medians[LOCAL] / median:8.0%}   {listed}")


if __name__ == "__main__":
    main()
