"""Tables of Spark's Delta that need more than the plain rules of reading, and the rows that Spark reads of them.

``python -m tests.support.spark.delta_features`` writes ``tests/golden/delta-features.tar.xz`` anew: each table in a
directory, and the rows of each in ``rows.json``.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkhaven.store.io.fs import Fs
from tests.support.ingest.delta.features import PACKED
from tests.support.spark.delta_conf import delta_conf

MAPPED = (
    "CREATE TABLE {t} (id BIGINT, name STRING, other STRING, s STRUCT<a: INT, gone: INT, b: ARRAY<STRUCT<c: STRING>>>,"
    " m MAP<STRING, STRUCT<d: INT>>, day DATE) USING delta PARTITIONED BY (day)"
    " TBLPROPERTIES('delta.columnMapping.mode' = '{mode}')",
    "INSERT INTO {t} SELECT id, concat('n', id), 'o', named_struct('a', int(id), 'gone', 1, 'b',"
    " array(named_struct('c', 'x'))), map('k', named_struct('d', int(id))), DATE'2026-11-20' FROM range(0, 5, 1, 1)",
    "ALTER TABLE {t} RENAME COLUMN name TO swap",
    "ALTER TABLE {t} RENAME COLUMN other TO name",  # the name of another column before
    "ALTER TABLE {t} RENAME COLUMN day TO on",
    "ALTER TABLE {t} RENAME COLUMN s.a TO first",
    "ALTER TABLE {t} DROP COLUMN s.gone",
    "ALTER TABLE {t} DROP COLUMN swap",
    "ALTER TABLE {t} ADD COLUMN swap STRING",  # null in the files that have a column of this name before
    "INSERT INTO {t} SELECT id, 'p', named_struct('first', int(id), 'b', array(named_struct('c', 'y'))),"
    " map('k', named_struct('d', null)), DATE'2026-11-21', concat('w', id) FROM range(5, 9, 1, 1)",
    "INSERT INTO {t} SELECT id, null, null, null, null, null FROM range(9, 10, 1, 1)",
)
CHECKPOINTED = (
    "CREATE TABLE {t} (id BIGINT, name STRING, day DATE) USING delta PARTITIONED BY (day) TBLPROPERTIES("
    "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', 'delta.enableDeletionVectors' = 'true')",
    "INSERT INTO {t} SELECT id, concat('n', id), DATE'2026-11-20' + int(id % 2) FROM range(0, 40, 1, 1)",
    "INSERT INTO {t} SELECT id, concat('n', id), DATE'2026-11-20' + int(id % 2) FROM range(40, 50, 1, 1)",
    "DELETE FROM {t} WHERE id % 5 = 3",
    "INSERT INTO {t} SELECT id, concat('n', id), null FROM range(50, 60, 1, 1)",
)
STATEMENTS: Mapping[str, Sequence[str]] = {
    "vectors": (
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta TBLPROPERTIES('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(0, 500, 1, 1)",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(500, 1000, 1, 1)",
        "DELETE FROM {t} WHERE id % 7 = 0",  # version 3
        "UPDATE {t} SET name = 'u' WHERE id = 5",
        "DELETE FROM {t} WHERE id BETWEEN 600 AND 700",
        "RESTORE TABLE {t} TO VERSION AS OF 3",  # rows come back: 5 as it was, and those of 600 to 700
        "DELETE FROM {t} WHERE id >= 990",
    ),
    "by-name": MAPPED,
    "by-id": MAPPED,
    "upgraded": (
        "CREATE TABLE {t} (id BIGINT, name STRING) USING delta",
        "INSERT INTO {t} VALUES (1, 'a')",
        "ALTER TABLE {t} SET TBLPROPERTIES('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',"
        " 'delta.minWriterVersion' = '5')",
        "ALTER TABLE {t} RENAME COLUMN name TO label",
        "INSERT INTO {t} VALUES (2, 'b')",
    ),
    "v2-json": CHECKPOINTED,
    "v2-parquet": CHECKPOINTED,
    "widened": (
        "CREATE TABLE {t} (id INT, v SMALLINT, f FLOAT, e DECIMAL(5,2), p INT) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES('delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} VALUES (1, 2, 0.1, 1.25, 7)",
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN v TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN e TYPE DECIMAL(12,4)",
        "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
        "INSERT INTO {t} VALUES (5000000000, 70000, 0.1, 12345.6789, 5000000000)",
    ),
}
LIVE: Mapping[str, Sequence[str]] = {  # vectors with containers of each kind, and a table with files of another one
    "large": (
        "CREATE TABLE {t} (id BIGINT) USING delta TBLPROPERTIES('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT id FROM range(0, 400000, 1, 1)",
        "DELETE FROM {t} WHERE id BETWEEN 70000 AND 200000 OR (id > 200000 AND id % 3 = 0) OR id IN (1, 399999)",
    ),
    "clone": ("CREATE TABLE {t} SHALLOW CLONE delta.`{base}/large`", "INSERT INTO {t} VALUES (500000)"),
}


def make_tables(spark: SparkSession, base: Path, tables: Mapping[str, Sequence[str]]) -> dict[str, list[list[Any]]]:
    """Makes tables below a directory; the rows of each, sorted by id, as plain values: structures as JSON."""
    for name, statements in tables.items():
        if name.startswith("v2-"):
            spark.conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", name.removeprefix("v2-"))
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{base / name}`", mode=name.rpartition("-")[2], base=base))
    return {name: rows_of(spark, base / name) for name in tables}


def rows_of(spark: SparkSession, table: Path) -> list[list[Any]]:
    """The rows of a table as Spark reads them."""
    frame = spark.read.format("delta").load(str(table))
    texts = [
        f"to_json(`{name}`) AS `{name}`" if kind.startswith(("struct", "map")) else f"`{name}`"
        for name, kind in frame.dtypes
    ]
    rows = frame.orderBy("id").selectExpr(*texts).collect()
    return [[value if isinstance(value, int | float | None) else str(value) for value in row] for row in rows]


def main() -> None:
    """Writes the golden file."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in delta_conf(Fs()).items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        rows = make_tables(builder.getOrCreate(), base, STATEMENTS)
        (base / "rows.json").write_text(json.dumps(rows))
        for path in [*base.rglob(".*.crc"), *base.rglob("*.crc"), *base.rglob("_staged_commits")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        with tarfile.open(PACKED, "w:xz") as packed:
            for path in sorted(base.iterdir()):
                packed.add(path, path.name)


if __name__ == "__main__":
    main()
