"""Trees of a table with every type that has a codec: exported, read back by the import, equal at the end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.parquet.trees import MANIFEST
from sparkhaven.store.layout import Layout
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import DAY, SCHEMA, TABLE, coded_row, coded_table, plain_rows
from tests.support.writers.import_cases import bring, empty
from tests.support.writers.merge_runs import FS, merge

Row = dict[str, Any]
TREES = {
    "nested": ["nested"],
    "flat": ["flat"],
    "kv": ["kv"],
    "metadata": ["metadata"],
    "hive": ["hive"],
    "leaves": ["hive", "--leaf", "deephaven"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A merged date with late rows, and what its rows are."""
    root = tmp_path_factory.mktemp("source") / "db"
    rng = random.Random(5)
    rows = [coded_row(rng, number) for number in range(60)]
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, rows[:40])})
    partitions(db.layout)
    merge(db.layout, table=TABLE, format="parquet")
    db.commit({("b", DAY): coded_table(db.schema, rows[40:])})
    return root, rows


def partitions(layout: Layout) -> None:
    for name in range(2):
        add_partition(FS, layout, "Test", str(name))


def exported(root: Path, out: Path, words: list[str]) -> Path:
    done = run(root, "export", str(TABLE), "--out", str(out), "--layout", *words)
    assert done.exit_code == 0, done.stderr
    return out


def read(layout: Layout) -> list[Row]:
    return plain_rows(open_table(layout.root, str(TABLE)).to_arrow().drop_columns(["Date"]))


@pytest.mark.slow
@pytest.mark.parametrize("words", TREES.values(), ids=TREES)
def test_what_was_exported_is_imported_equal(source: tuple[Path, list[Row]], tmp_path: Path, words: list[str]) -> None:
    tree = exported(source[0], tmp_path / "tree", words)
    layout = empty(tmp_path / "db", SCHEMA)
    partitions(layout)
    bring(layout, tree, table=str(TABLE))
    assert read(layout) == source[1]


def leaf_with(tmp_path: Path, column: str, attributes: str, array: pa.Array, target: str) -> tuple[Layout, Path]:
    """A tree of column files with one column, and a root whose schema declares it by other attributes."""
    schema = (
        '<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        '<Column name="X" dataType="{}" {}/></Table>'
    )
    db = IntradayRows(tmp_path / "from", schema.format(column, attributes).encode(), fs=FS)
    db.commit({("a", DAY): pa.table({"X": array})})
    done = run(db.root, "export", "NS.T", "--out", str(tmp_path / "tree"), "--layout", "hive", "--leaf", "deephaven")
    assert done.exit_code == 0, done.stderr
    (tmp_path / "tree" / MANIFEST).unlink()  # its digests are of the other codec
    return empty(tmp_path / "to", schema.format(column, target).encode()), tmp_path / "tree"


def args(codec: str, arguments: str) -> str:
    return f'objectCodec="io.deephaven.util.codec.{codec}" objectCodecArguments="{arguments}"'


@pytest.mark.parametrize(
    ("kind", "codec", "own", "target", "values", "arrow"),
    [
        ("LocalDate", "LocalDateCodec", "Full", "Compact", [0, None, 19_000], pa.date32()),
        ("LocalTime", "LocalTimeCodec", "9", "3", [0, None, 5_000_000], pa.time64("ns")),
        ("BigDecimal", "BigDecimalCodec", "50,10", "20,2", ["1.50", None, "-7"], pa.decimal256(50, 10)),
        ("BigInteger", "BigIntegerCodec", "18", "40", ["5", None, "-7"], pa.decimal128(18)),
    ],
)
def test_a_leaf_may_have_another_codec(
    tmp_path: Path, kind: str, codec: str, own: str, target: str, values: list[Any], arrow: pa.DataType
) -> None:
    counts = pa.int32() if pa.types.is_date(arrow) else pa.int64()
    array = pa.array(values).cast(arrow) if pa.types.is_decimal(arrow) else pa.array(values, counts).view(arrow)
    layout, tree = leaf_with(tmp_path, kind, args(codec, own), array, args(codec, target))
    add_partition(FS, layout, "NS", "0")
    bring(layout, tree)
    table = open_table(layout.root, "NS.T").to_arrow()
    assert table["X"].combine_chunks().cast(array.type) == array


def test_a_value_that_the_own_codec_cannot_hold_is_refused_with_its_row(tmp_path: Path) -> None:
    array = pa.array([0, 5, 7_000_000], pa.int64()).view(pa.time64("ns"))
    layout, tree = leaf_with(tmp_path, "LocalTime", args("LocalTimeCodec", "9"), array, args("LocalTimeCodec", "3"))
    add_partition(FS, layout, "NS", "0")
    with pytest.raises(SchemaMismatchError, match="value of column X cannot be stored") as caught:
        bring(layout, tree)
    assert str(caught.value.where).endswith("column X, row 1")
