"""What the start of a command costs: by Spark alone, with the launcher of Python, and with the archive of classes, too.

``python -m benchmarks.startup [--rounds 2]``. Commands: ``--help``; ``read`` of a row; a stream of one row, ``ingest
--once``, to its first epoch and to its end, and ``merge`` of its date: as the commands choose, without Spark, and with
``--spark``. CPU is that of the whole job: the driver, Spark's JVM, and all Python processes. What starts no Spark is
the same in all kinds.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from benchmarks.figures import add_record, record
from sparkhaven.jobs.cli.setup import small_stream
from sparkhaven.jobs.session.fast_start import class_archive
from sparkhaven.jobs.session.spark_session import import_root
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory

PR_SET_CHILD_SUBREAPER = 36
KINDS = ("plain", "launcher", "launcher and archive")
TABLE, DATE = "Class.Archive", "2026-01-01"


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds, and CPU seconds."""

    seconds: float
    cpu: float = 0.0


def environment(kind: str, base: Path) -> dict[str, str]:
    """Of a job: a cache of its own that holds what its kind may use."""
    own = base / kind.replace(" ", "-") / "sparkhaven"
    own.mkdir(parents=True, exist_ok=True)
    used = [*cache_directory(os.environ).glob("delta-*")]
    used += [class_archive(Fs(), os.environ)] if kind.endswith("archive") else []
    for path in used:
        (own / path.name).unlink(missing_ok=True)
        (own / path.name).symlink_to(path)
    environ = {**os.environ, "XDG_CACHE_HOME": str(own.parent), "PYTHONPATH": str(import_root())}
    if kind == "plain":
        # named, it could be another one, and the launcher stays away
        environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    return environ


def run(kind: str, base: Path) -> Iterator[tuple[str, Taken]]:
    """The commands by name, in a database of their own."""
    environ = environment(kind, base)
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        work = Path(scratch)
        stream = small_stream(work)
        root_index = stream.index("--root") + 1
        yield "--help", timed([*stream[: root_index - 1], "--help"], work, environ)[0]
        for way in ([], ["--spark"]):
            stream[root_index] = f"db{''.join(way)}"
            command = stream[: root_index + 1]
            name = " ".join(["ingest --once", *way])
            job, first = timed([*stream, *way], work, environ, until=" epoch 1: ")
            yield f"{name}, first epoch", first
            yield f"{name}, end", job
            yield " ".join(["merge", *way]), timed([*command, "merge", TABLE, "--dates", DATE, *way], work, environ)[0]
        yield "read", timed([*command, "read", TABLE, "--limit", "1"], work, environ)[0]


def timed(line: list[str], work: Path, environ: dict[str, str], until: str = "") -> tuple[Taken, Taken]:
    """One command to its end, and to the line on standard error that has the words ``until``."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    first = 0.0
    with subprocess.Popen(
        line, cwd=work, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stderr is not None  # noqa: S101 it is a pipe
        for printed in job.stderr:
            if until and until in printed and not first:
                first = time.monotonic() - begun
    seconds = time.monotonic() - begun
    if job.returncode:
        sys.exit(f"{line} ended with {job.returncode}")
    wait_for_all()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(seconds, cpu), Taken(first)


def wait_for_all() -> None:
    """Until whatever a job has left behind has ended, too; then its CPU is counted."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def main() -> None:
    """Prints medians and ratios."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    add_record(parser)
    arguments = parser.parse_args()
    rounds = arguments.rounds
    if Fs().stat(class_archive(Fs(), os.environ)) is None:
        sys.exit("no archive of classes: sparkhaven class-archive")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    runs_by_kind: dict[tuple[str, str], list[Taken]] = {}
    with tempfile.TemporaryDirectory() as base:
        for number in range(rounds + 1):
            for kind in KINDS:
                for command, timing in run(kind, Path(base)):
                    if number:
                        runs_by_kind.setdefault((command, kind), []).append(timing)
    print(f"{'':58}{'seconds':>9}{'ratio':>7}{'CPU':>7}")
    for (command, kind), runs in sorted(runs_by_kind.items(), key=lambda pair: (pair[0][0], KINDS.index(pair[0][1]))):
        plain = statistics.median(timing.seconds for timing in runs_by_kind[command, "plain"])
        seconds = statistics.median(timing.seconds for timing in runs)
        cpu = statistics.median(timing.cpu for timing in runs)
        busy = f"{cpu:7.1f}" if cpu else ""
        print(f"{command:36}{kind:22}{seconds:9.2f}{seconds / plain:7.2f}{busy}")
    ends = {
        name: statistics.median(timing.seconds for timing in runs_by_kind[f"{command}, end", kind])
        for name, command, kind in (
            ("startup.local", "ingest --once", KINDS[-1]),
            ("startup.spark", "ingest --once --spark", KINDS[-1]),
            ("startup.plain", "ingest --once --spark", KINDS[0]),
        )
    }
    record(parser, arguments, ends)


if __name__ == "__main__":
    main()
