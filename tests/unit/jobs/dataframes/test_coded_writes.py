"""Columns with codecs through PySpark's own workers, without a JVM: a write of what a read hands over."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import sparkhaven
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.spark_types import spark_batch, spark_schema
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.spark.data_source import Write
from tests.support.writers.coded_rows import DAY, SCHEMA, coded_row, coded_table, plain_rows

TABLE = parse_schema(SCHEMA, "Test.Coded.schema").schema


@pytest.mark.parametrize("char", ["string", "int"])
def test_a_frame_is_written_as_it_was_read(tmp_path: Path, char: str) -> None:
    shown = ReadOptions(tmp_path, "Test.Coded", char=char)  # type: ignore[arg-type]  # one of its values
    rng = random.Random(12)
    rows = [coded_row(rng, number) for number in range(120)]
    batch = spark_batch(coded_table(TABLE, rows).combine_chunks().to_batches()[0], TABLE.stored, shown)
    tags = pa.array([None if row["N"] % 7 == 0 else row["Tags"] for row in rows], pa.list_(pa.string()))
    batch = batch.set_column(batch.schema.get_field_index("Tags"), "Tags", tags)
    types = spark_schema(TABLE.stored, shown)
    batch = batch.cast(to_arrow_schema(types, timezone="UTC"))
    (tmp_path / "t.schema").write_bytes(SCHEMA)
    given = {"root": str(tmp_path / "db"), "path": "Test.Coded", "stream": "s", "schema": str(tmp_path / "t.schema")}
    given |= {"internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}', "label": "once"}
    for _ in range(2):  # the second time its tasks only look: they find the same digest
        begun = Write(given, types)
        begun.commit(begun.tasks([batch.slice(0, 50)], [batch.slice(50), batch.slice(120)]))
    again = sparkhaven.open_table(tmp_path / "db", "Test.Coded").to_arrow(dictionaries=False)
    expected = [row | {"Tags": [] if row["N"] % 7 == 0 else row["Tags"]} for row in rows]
    assert plain_rows(again.drop_columns(["Date"])) == expected
