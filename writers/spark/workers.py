"""Checks that Spark's workers can run sparkhaven's tasks: Python version, packages, access to the root.

Runs once, before the first task, with standard-library functions only: a worker that lacks a package cannot unpickle
sparkhaven's tasks, and its error names neither the machine nor the interpreter.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.errors import SettingsError
from writers.shared_root import unseen
from writers.spark.tasks import PYTHON_HINT, error_summary, host_of, jvm_gone

if TYPE_CHECKING:
    from pyspark import SparkContext

NEEDED = ("numpy", "pandas", "pyarrow", "xxhash", "duckdb", "store", "ingest", "readers", "writers", "jobs")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's answer. ``sees``: whether it sees the marker file."""

    host: str
    python: str
    version: str
    missing: tuple[str, ...]
    sees: bool


def check_workers(context: SparkContext, root: Path, marker: Path) -> None:
    """Runs a short job on the workers, unless they run this interpreter on this machine.

    ``marker``: an existing file below ``root``. SettingsError: a worker has another Python version or lacks packages.
    CommitError: a worker does not see the root.
    """
    if _same_here(context):
        return
    tasks = max(1, context.defaultParallelism)
    try:
        found = context.parallelize(range(tasks), tasks).mapPartitions(_question(str(marker))).collect()
    except Exception as error:
        raise jvm_gone(error) or cannot_run(context, error) from error
    require_capable(root, [Worker(*answer) for answer in found])


def require_capable(root: Path, workers: Sequence[Worker]) -> None:
    """Raises what ``check_workers`` raises, for the workers' answers."""
    for worker in workers:
        if worker.missing:
            raise SettingsError(
                "a worker's Python lacks packages that sparkhaven needs",
                where=f"{worker.python} on {worker.host}",
                expected=f"the packages of {sys.executable}, which runs the driver",
                found=f"Python {worker.version} without {', '.join(worker.missing)}",
                hint=PYTHON_HINT,
            )
        if not worker.sees:
            raise unseen(root, worker.host)


def cannot_run(context: SparkContext, error: BaseException) -> SettingsError:
    """The error if the workers cannot run any function: no such interpreter, or another Python version."""
    return SettingsError(
        "Spark's workers cannot run Python functions of this driver",
        where=f"{context.pythonExec} on {host_of(error)}",
        expected=f"Python {sys.version_info[0]}.{sys.version_info[1]}, as {sys.executable}, which runs the driver",
        found=error_summary(error),
        hint=PYTHON_HINT,
    )


def _same_here(context: SparkContext) -> bool:
    local = re.fullmatch(r"local(\[.*\])?", context.master) is not None
    return local and shutil.which(context.pythonExec) == sys.executable


def _question(marker: str) -> Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]:
    """The function for the workers; nested, because Spark pickles it by value and not by module name."""
    needed = NEEDED

    def answer(_: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import importlib.util
        import pathlib
        import platform
        import sys

        missing = tuple(name for name in needed if importlib.util.find_spec(name) is None)
        yield socket.gethostname(), sys.executable, platform.python_version(), missing, pathlib.Path(marker).exists()

    return answer
