"""The command ``export``: its JSON, its words, its exit codes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from tests.support.commands import run, run_json
from tests.support.tables.small_tables import SmallTable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two dates of one stream."""
    small = SmallTable(tmp_path / "db")
    for day in ("2026-11-20", "2026-11-21"):
        small.add("a", day, {"Sym": ["X", "Y"], "Size": [1, None]})
    small.log().close()
    return tmp_path / "db"


def test_export_reports_rows_files_and_digests(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = "export", "NS.T", "--out", str(out), "--codec", "zstd", "--dates", "2026-11-21..2026-12-01"
    code, value = run_json(root, *words, "--dry-run")
    assert (code, value["outcome"], value["rows"], value["digests"], out.exists()) == (0, "planned", 2, {}, False)
    code, value = run_json(root, *words)
    assert code == 0
    assert value["dates"] == {"2026-11-21": 2}
    assert (value["layout"], value["codec"], value["files"], value["dry_run"]) == ("kv", "ZSTD", 1, False)
    assert set(value["digests"]) == set(value["columns"])
    assert value["bytes"] == sum(path.stat().st_size for path in out.rglob("*.parquet"))
    code, again = run_json(root, *words)
    assert (code, again["outcome"], again["id"]) == (0, "unchanged", value["id"])
    found = run(root, "export", "NS.T", "--out", str(out), "--replace")
    assert (found.exit_code, found.stdout) == (0, f"4 rows of 2 dates to {out}, layout kv\n")
    assert "2026-11-20: 2 rows written, 1 of 2 dates" in found.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--layout", "tree"),
        ("--leaf", "csv"),
        ("--codec", "lzo"),
        ("--columns", "Sym,None"),
        ("--dates", "2020-01-01"),
        ("--tier", "past"),
        ("--layout", "flat", "--leaf", "deephaven"),
    ],
)
def test_wrong_words_end_with_2_and_nothing_is_written(root: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, value = run_json(root, "export", "NS.T", "--out", str(tmp_path / "out"), *words)
    assert (code, value["error"]["exit_code"]) == (2, 2)
    assert value["error"]["expected"]
    assert not (tmp_path / "out").exists()


def test_columns_that_close_a_tree_to_spark_are_told_with_what_to_type(tmp_path: Path) -> None:
    types = {"Id": "long", "T": "LocalTime", "Px": "BigDecimal"}
    codec = 'objectCodec="io.deephaven.util.codec.BigDecimalCodec" objectCodecArguments="50,2"'
    listed = "".join(
        f'<Column name="{name}" dataType="{kind}" {codec if name == "Px" else ""}/>' for name, kind in types.items()
    )
    partitioning = '<Column name="Date" dataType="String" columnType="Partitioning"/>'
    schema = f'<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">{partitioning}{listed}</Table>'
    small = SmallTable(tmp_path / "db", schema)
    small.log().close()
    (tmp_path / "NS.T.schema").write_text(schema)
    rows = pa.table({"Id": [1], "T": pa.array([1], pa.time64("ns")), "Px": [Decimal("1.5")]})
    sparkhaven.merge_frame(rows, tmp_path / "db", "NS.T", "2026-11-20")
    words = "export", "NS.T", "--out", str(tmp_path / "out")
    found = run(tmp_path / "db", *words)
    assert (found.exit_code, "For Spark: --columns Id" in found.stderr) == (0, True)
    code, value = run_json(tmp_path / "db", *words)
    assert (code, value["closed_to_spark"]) == (0, ["T", "Px"])
    found = run(tmp_path / "db", *words[:3], str(tmp_path / "open"), "--columns", "Id")
    assert (found.exit_code, "Spark" in found.stderr) == (0, False)
    (file,) = (tmp_path / "open").rglob("*.parquet")
    assert pq.read_schema(file).names == ["Id"]
