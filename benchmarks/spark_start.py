"""What a small job costs with and without the launcher of Python and the archive of classes, in turns.

``python -m benchmarks.spark_start [--rounds 5]``: a stream of one row, ``ingest --once``, from the command to its end.
CPU is that of the whole job: the driver, Spark's JVM, and all Python processes.
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
from contextlib import suppress
from pathlib import Path

import pyspark

from jobs.cli.class_archive import small_stream
from jobs.session.fast_start import class_archive
from jobs.session.jars import cache_directory
from jobs.session.spark_session import import_root
from store.io.fs import Fs

PR_SET_CHILD_SUBREAPER = 36
KINDS = ("plain", "launcher", "launcher and archive")


def environment(kind: str, base: Path) -> dict[str, str]:
    """Of a job: a cache of its own that holds what its kind may use."""
    own = base / kind.replace(" ", "-") / "sparkhaven"
    own.mkdir(parents=True, exist_ok=True)
    used = [*cache_directory(os.environ).glob("delta-*")]
    used += [class_archive(Fs(), os.environ)] if kind.endswith("archive") else []
    for path in used:
        (own / path.name).unlink(missing_ok=True)
        (own / path.name).symlink_to(path)
    found = {**os.environ, "XDG_CACHE_HOME": str(own.parent), "PYTHONPATH": str(import_root())}
    if kind == "plain":
        # named, it could be another one, and the launcher stays away
        found["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    return found


def run(kind: str, base: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of one job."""
    environ = environment(kind, base)
    with tempfile.TemporaryDirectory(dir=base) as scratch:
        work = Path(scratch)
        line = small_stream(work)
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(line, cwd=work, env=environ, check=True, capture_output=True)
        seconds = time.monotonic() - begun
        wait_for_all()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wait_for_all() -> None:
    """Until whatever a job has left behind has ended, too; then its CPU is counted."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def main() -> None:
    """Prints medians and ratios."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if Fs().stat(class_archive(Fs(), os.environ)) is None:
        sys.exit("no archive of classes: sparkhaven class-archive")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as base:
        taken: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for kind in [*KINDS, *KINDS * rounds]:
            taken[kind].append(run(kind, Path(base)))
    plain = statistics.median(seconds for seconds, _ in taken["plain"][1:])
    print(f"{'':22}{'seconds':>9}{'ratio':>7}{'CPU':>7}")
    for kind, runs in taken.items():
        seconds, cpu = (statistics.median(values) for values in zip(*runs[1:], strict=True))
        print(f"{kind:22}{seconds:9.1f}{seconds / plain:7.2f}{cpu:7.1f}")


if __name__ == "__main__":
    main()
