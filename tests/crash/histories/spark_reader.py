"""Reads tables with Spark, by its reader in Java or by the one in Python, in a process of its own.

The process takes lines ``[root, table, columns, where, reader, file]`` and answers each with an error, or with an empty
one, and the rows in a file of Arrow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import pyarrow as pa

from tests.crash.histories.columns import Col, Rows, plain, rows_of

READERS = ("auto", "python")
ANOTHER_TYPE = ("wide decimal",)  # which Spark has as texts


class SparkReader:
    """One session for all histories of a campaign; ``close`` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.histories.spark_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rows(self, root: Path, table: str, columns: Sequence[Col], where: str, reader: str) -> Rows:
        """The rows that a filter keeps; ValueError: Spark gave none, and why."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        names = [column.name for column in columns]
        with NamedTemporaryFile(suffix=".arrow") as file:
            asked = [str(root), table, names, where, reader, file.name]
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            if error := json.loads(self._process.stdout.readline()):
                raise ValueError(error)
            with pa.OSFile(file.name) as opened:
                found = pa.ipc.open_file(opened).read_all()
        return rows_of(columns, [plain(found.column(name)) for name in names])

    def close(self) -> None:
        self._process.communicate()


def readable(columns: Sequence[Col]) -> list[Col]:
    """The columns that can be compared."""
    return [column for column in columns if column.kind.name not in ANOTHER_TYPE]


def main() -> None:
    from pyspark.sql import SparkSession

    from sparkhaven import register
    from tests.support.spark.stream_job import session

    def read(
        spark: SparkSession, root: str, table: str, columns: Sequence[str], where: str, reader: str, file: str
    ) -> None:
        options = {"root": root, "reader": reader, "instant": "long", "char": "int"}
        frame = spark.read.format("deephaven").options(**options, **({"where": where} if where else {}))
        rows = frame.load(table).select(*columns).toArrow()
        with pa.OSFile(file, "wb") as opened, pa.ipc.new_file(opened, rows.schema) as writer:
            writer.write_table(rows)

    spark = session()
    register(spark)
    for line in sys.stdin:
        said = ""
        try:
            read(spark, *json.loads(line))
        except Exception:  # told to whoever asked, as the end of a history
            said = traceback.format_exc()[-2000:]
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
