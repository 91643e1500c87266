"""Whole commands that merge a day, or sort it by DuckDB, each a process of its own, its output synced.

Modules are compiled as an installer leaves them. ``cold``: nothing of what a command reads is in the page cache.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sparkhaven.store.layout import Layout, TableName

CODECS = ("snappy", "zstd", "uncompressed")
ORDER = "Sym, EventTime"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_IN_DUCKDB = """
import duckdb, os, sys
threads, source, target, codec = sys.argv[1:]
with duckdb.connect() as connection:
    connection.execute("SET threads = " + threads)
    rows = f"SELECT * FROM read_parquet('{source}') ORDER BY ORDER_OF_ROWS"
    connection.execute(f"COPY ({rows}) TO '{target}' (FORMAT parquet, COMPRESSION {codec})")
for path in (target, os.path.dirname(target)):
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
""".replace("ORDER_OF_ROWS", ORDER)


def timed(command: Sequence[str], environment: dict[str, str], *, cold: bool = False) -> tuple[float, float]:
    """Seconds, and CPU seconds of the process and its children."""
    os.sync()
    if cold:
        uncached()
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    compiled = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, env=compiled, capture_output=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def uncached() -> None:
    """Empties the page cache, of what nobody has mapped. SystemExit: only root may."""
    os.sync()
    try:
        DROP_CACHES.write_text("3", encoding="ascii")
    except OSError as error:
        raise SystemExit(f"only root can empty the page cache: {error}. Leave cold runs out") from error


def may_empty_cache() -> bool:
    """Whether this user may empty the page cache."""
    return os.access(DROP_CACHES, os.W_OK)


def merged(root: Path, table: TableName, day: str, workers: int, *, cold: bool = False) -> tuple[float, float]:
    """One first merge of the day by ``sparkhaven merge --local``."""
    shutil.rmtree(Layout(root).system(table.namespace), ignore_errors=True)
    program = str(Path(sys.executable).with_name("sparkhaven"))
    words = [program, "merge", str(table), "--dates", day, "--sort", "EventTime", "--local", "--workers", str(workers)]
    return timed(words, {**os.environ, "SPARKHAVEN_ROOT": str(root)}, cold=cold)


def sorted_by_duckdb(files: Path, out: Path, threads: int, codec: str, *, cold: bool = False) -> tuple[float, float]:
    """ORDER BY of the Parquet files of a directory into one."""
    words = [sys.executable, "-c", _IN_DUCKDB, str(threads), str(files / "*.parquet"), str(out), codec]
    return timed(words, dict(os.environ), cold=cold)
