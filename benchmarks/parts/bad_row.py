"""What one bad row costs a short run: ``ingest --once`` of one good row, and the same with a bad row beside it.

Whole commands, from the start of the process to its end, in turn; the first run of each kind does not count. The table
shows medians, of CPU time too: on a busy machine that says more. Exit 1 if the bad row costs more than 0.3 s.

    python -m benchmarks.parts.bad_row [--rounds 9]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import add_record, record
from benchmarks.scratch import scratch
from sparkhaven.jobs.session.spark_session import import_root

WORST_S = 0.3
SCHEMA = """<Table namespace="Bench" name="Row" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
</Table>"""
STREAM = """name = "bench"
table = "Bench.Row"
schema = "Bench.Row.schema"
[feed]
type = "files"
path = "feed/*.json"
[partition]
internal = { fixed = "0" }
value = { fixed = "2026-11-22" }
[bad_rows]
max_rows = 5
"""
ROWS = {"one good row": '{"Id": 1}\n', "one good row, one bad": '{"Id": 1}\n{"Id": "x"}\n'}


def run(work: Path, number: int, text: str) -> tuple[float, float]:
    """Seconds and CPU seconds of a command that takes one new file."""
    path = work / "feed" / f"{number:04}.json"
    path.write_text(text)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    words = ["-m", "sparkhaven.jobs.cli.main", "--root", "db", "ingest", "bench.toml", "--once", "--json"]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words], cwd=work, env={**os.environ, "PYTHONPATH": str(import_root())}, capture_output=True
    )
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    add_record(parser)
    args = parser.parse_args()
    rounds = args.rounds
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ROWS}
    with scratch() as work:
        (work / "feed").mkdir()
        (work / "Bench.Row.schema").write_text(SCHEMA)
        (work / "bench.toml").write_text(STREAM)
        for number in range(rounds + 1):
            for index, (name, text) in enumerate(ROWS.items()):
                both = run(work, number * len(ROWS) + index, text)
                if number:
                    taken[name].append(both)
    medians = {name: [statistics.median(part) for part in zip(*both, strict=True)] for name, both in taken.items()}
    print(f"{'':<24}{'seconds':>9}{'CPU':>7}   all runs")
    for name, (seconds, cpu) in medians.items():
        print(f"{name:<24}{seconds:>9.2f}{cpu:>7.2f}   {' '.join(f'{wall:.2f}' for wall, _ in taken[name])}")
    (clean, clean_cpu), (bad, bad_cpu) = medians.values()
    print(f"a bad row costs {bad - clean:.2f} s, {bad_cpu - clean_cpu:.2f} s of CPU, limit {WORST_S}")
    record(parser, args, {"quarantine.one_row": bad - clean})
    return int(bad - clean > WORST_S)


if __name__ == "__main__":
    sys.exit(main())
