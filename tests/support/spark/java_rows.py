"""Rows and values as the Spark reader in Java has them, without a Spark session: ``tests/jvm/SparkValues.java``."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from java.build import JAR, build, spark_jars
from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.spark.batch import SnapshotReader, shown_columns, where_of
from sparkhaven.readers.spark.jvm.plan_file import plan_slices
from sparkhaven.readers.spark.options import ReadOptions, read_options
from sparkhaven.store.errors import SparkhavenError

PROGRAM = Path(__file__).parents[2] / "jvm" / "SparkValues.java"
QUICK = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
OPENS = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util")


def run_java(*words: object) -> list[str]:
    """The lines that the program writes."""
    build(JAR)
    classes = f"{JAR}:{spark_jars(os.environ)}/*"
    opens = [f"--add-opens={module}=ALL-UNNAMED" for module in OPENS]
    command = ["java", *QUICK, *opens, "-cp", classes, str(PROGRAM), *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout.splitlines()


def options_of(root: Path, name: str, **options: str) -> ReadOptions:
    """The options of a read of a table."""
    return read_options({"root": str(root), "path": name, **options}, {}, stream=False)


def plan_of(options: ReadOptions, **limit: int) -> bytes | str:
    """The plan of a read, or the reason why Python reads."""
    table = _pinned(options)
    columns = shown_columns(table, options)
    where = where_of(options, table.schema)
    slices = table.plan(dates=options.dates, sources=options.sources, where=where, tier=options.tier).slices
    return plan_slices(table, slices, columns, where, options, **limit)


def by_java(reads: Iterable[ReadOptions], scratch: Path) -> list[list[str]]:
    """The rows of each read as text, in any order, or the error alone."""
    paths = []
    for number, options in enumerate(reads):
        plan = plan_of(options)
        assert isinstance(plan, bytes), plan
        paths.append(scratch / f"plan-{number}")
        paths[-1].write_bytes(plan)
    results: list[list[str]] = [[]]
    for line in run_java("plans", *paths):
        if line == "end":
            results.append([])
        elif "Error: " in line.split(" ", 1)[0] + " ":
            results[-1] = [line.replace("\\n", "\n")]
            results.append([])
        else:
            results[-1].append(line)
    assert results.pop() == []
    return [sorted(rows) for rows in results]


def by_python(options: ReadOptions) -> list[str]:
    """The same by the source in Python."""
    try:
        reader = SnapshotReader(_pinned(options), options)
        rows: list[str] = []
        for task in reader.partitions():
            for batch in reader.read(task):
                rows += list(_rows(batch))
    except SparkhavenError as error:
        return [f"{type(error).__name__}: {error}"]
    return sorted(rows)


def _pinned(options: ReadOptions) -> PinnedTable:
    checks, null = options.checksum_verify, options.null_char
    return pinned_of(open_place(options.place, epoch=options.epoch, checksum_verify=checks, null_char=null))


def _rows(batch: pa.RecordBatch) -> Iterator[str]:
    for row in range(batch.num_rows):
        yield " ".join(shown(array, row) for array in batch.columns)


def shown(array: pa.Array, row: int) -> str:
    """A value as ``SparkValues.java`` writes it."""
    kind, kinds = array.type, pa.types
    value = array[row]
    if not value.is_valid:
        return "null"
    if kinds.is_list(kind) or kinds.is_map(kind):
        places = range(array.offsets[row].as_py(), array.offsets[row + 1].as_py())
        if kinds.is_map(kind):
            return f"{_joined(array.keys, places)}={_joined(array.items, places)}"
        return _joined(array.values, places)
    if kinds.is_string(kind) or kinds.is_binary(kind):
        return "'" + bytes(value.as_buffer()).hex()
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return str(value.value)
    if kinds.is_floating(kind):
        number = value.as_py()
        bits = struct.pack(">d" if kinds.is_float64(kind) else ">f", number if number == number else float("nan"))
        return f"{int.from_bytes(bits, 'big'):x}"
    if kinds.is_boolean(kind):
        return str(value.as_py()).lower()
    return f"{value.as_py():f}" if kinds.is_decimal(kind) else str(value.as_py())


def _joined(array: pa.Array, places: range) -> str:
    return "[" + ",".join(shown(array, place) for place in places) + "]"
