"""Parquet files of Spark before 3.0: whichever way rows take, a date is the day that was meant, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from tests.support.commands import run
from tests.support.ingest.delta.tables import put_version

DAYS = [-719_164, -171_596, -141_428, 0]  # as Spark 2.4 writes these dates
MEANT = [date(1, 1, 1), date(1500, 3, 1), date(1582, 10, 4), date(1970, 1, 1)]
SPARK_2 = {"version": "2.4.8"}
SCHEMA = """<Table namespace="F" name="T" storageType="NestedPartitionedOnDisk">
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>%s</Table>
"""
STREAM = """name = "s"
table = "F.T"
schema = "F.T.schema"
[feed]
type = "%s"
path = "%s"
%s
[columns]
%s
[partition]
internal = { fixed = "0" }
value = { fixed = "2026-11-20" }
"""


def written(path: Path, footer: Mapping[str, str], *, int96: bool = False, **columns: pa.Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = pa.array(range(len(next(iter(columns.values())))), pa.int64())
    keys = {f"org.apache.spark.{name}": value for name, value in footer.items()}
    table = pa.table({"Id": ids, **columns}).replace_schema_metadata(keys)
    pq.write_table(table, path, use_deprecated_int96_timestamps=int96)
    return path


def dates(days: list[int]) -> pa.Array:
    return pa.array(days, pa.int32()).cast(pa.date32())


def _ingest(base: Path, kind: str, path: Path, more: str, columns: str) -> tuple[str, ...]:
    (base / "s.toml").write_text(STREAM % (kind, path, more, columns))
    return "ingest", str(base / "s.toml"), "--once", "--local"


def by_files(base: Path, file: Path, columns: str) -> tuple[str, ...]:
    return _ingest(base, "files", file.parent, 'format = "parquet"\nsettle = "0 s"', columns)


def by_delta(base: Path, file: Path, columns: str) -> tuple[str, ...]:
    log = file.parent / "_delta_log"
    log.mkdir()
    types = json.dumps({"type": "struct", "fields": [{"name": n, "type": "x"} for n in pq.read_schema(file).names]})
    add = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1}
    metadata = {"id": "t", "schemaString": types, "configuration": {}, "partitionColumns": []}
    put_version(file.parent, 0, {"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}, {"add": add})
    return _ingest(base, "delta", file.parent, "start_version = 0", columns)


def by_import(base: Path, file: Path, columns: str) -> tuple[str, ...]:
    return "import", "F.T", "--from", str(file.parent), "--dates", "2026-11-20"


WAYS = {"files": by_files, "delta": by_delta, "import": by_import}
Way = Callable[[Path, Path, str], tuple[str, ...]]


def stored(base: Path, file: Path, way: Way, kinds: Mapping[str, str], columns: str = "") -> tuple[int, list[Any]]:
    """The exit code, and the rows of the table by Id."""
    declared = "".join(f'<Column name="{name}" dataType="{kind}"/>' for name, kind in kinds.items())
    (base / "F.T.schema").write_text(SCHEMA % declared)
    assert run(base / "db", "schema", "deploy", str(base / "F.T.schema")).exit_code == 0
    done = run(base / "db", *way(base, file, columns))
    rows = sparkhaven.open_table(base / "db", "F.T").to_arrow(["Id", *kinds]).sort_by("Id").to_pylist()
    return done.exit_code, rows


@pytest.mark.parametrize("way", WAYS)
def test_dates_are_the_days_that_were_meant(tmp_path: Path, way: str) -> None:
    file = written(tmp_path / "feed" / "a.parquet", SPARK_2, D=dates(DAYS), I=dates(DAYS))
    kinds = {"D": "LocalDate", "I": "int"}
    code, rows = stored(tmp_path, file, WAYS[way], kinds)
    assert (code, [row["D"] for row in rows]) == (0, MEANT)
    assert [date(1970, 1, 1).toordinal() + row["I"] for row in rows] == [day.toordinal() for day in MEANT]


@pytest.mark.parametrize("way", WAYS)
def test_days_of_todays_calendar_stay(tmp_path: Path, way: str) -> None:
    file = written(tmp_path / "feed" / "a.parquet", {"version": "3.5.1"}, D=dates([-719_162, -141_428]))
    code, rows = stored(tmp_path, file, WAYS[way], {"D": "LocalDate"})
    assert (code, [row["D"] for row in rows]) == (0, [date(1, 1, 1), date(1582, 10, 14)])


EARLY, SURE = -3_000_000_000_000_000, -2_208_988_800_000_000  # 1874, and 1900-01-01


@pytest.mark.parametrize("int96", [False, True], ids=["micros", "int96"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", None])
@pytest.mark.parametrize("way", WAYS)
def test_instants_before_1900_are_exact_or_refused(tmp_path: Path, way: str, zone: str | None, int96: bool) -> None:
    footer = SPARK_2 | ({"timeZone": zone} if zone else {})
    instants = pa.array([EARLY, SURE, 0, None], pa.timestamp("us", "UTC"))
    file = written(tmp_path / "feed" / "a.parquet", footer, int96=int96, At=instants)
    code, rows = stored(tmp_path, file, WAYS[way], {"At": "Instant"})
    kept = [row["At"].value if row["At"] is not None else None for row in rows]
    values = [None if at is None else at * 1000 for at in (EARLY, SURE, 0, None)]
    if zone == "UTC":
        assert (code, kept) == (0, values)
    elif way in ("files", "delta"):
        assert (code, kept) == (0, values[1:])
        found = run(tmp_path / "db", "quarantine", "list", "F.T", "s", "--json").stdout
        assert "instant-before-1900-of-an-unknown-zone" in found
        assert ('zone = \\"UTC\\"' in found) == (zone is None)
    else:
        assert (code, kept) == (2, [])


def test_a_column_says_that_spark_wrote_in_utc(tmp_path: Path) -> None:
    instants = pa.array([EARLY, 0], pa.timestamp("us", "UTC"))
    file = written(tmp_path / "feed" / "a.parquet", SPARK_2, At=instants)
    code, rows = stored(tmp_path, file, by_files, {"At": "Instant"}, 'At = { zone = "UTC" }')
    assert (code, [row["At"].value for row in rows]) == (0, [EARLY * 1000, 0])


@pytest.mark.parametrize("int96", [False, True], ids=["micros", "int96"])
def test_an_instant_that_none_holds_is_what_far_says(tmp_path: Path, int96: bool) -> None:
    """0001-01-01 stands for "no time" in many tables: in whatever zone, it is outside of the range."""
    instants = pa.array([-62_135_769_600_000_000, 0], pa.timestamp("us", "UTC"))
    file = written(tmp_path / "feed" / "a.parquet", SPARK_2, int96=int96, At=instants)
    code, rows = stored(tmp_path, file, by_files, {"At": "Instant"}, 'At = { far = "null" }')
    assert (code, [row["At"] and row["At"].value for row in rows]) == (0, [None, 0])


def test_texts_and_lists_of_doubtful_instants_are_refused(tmp_path: Path) -> None:
    instants = pa.array([EARLY, 0], pa.timestamp("us", "UTC"))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), instants)
    file = written(tmp_path / "feed" / "a.parquet", SPARK_2, T=instants, A=lists)
    code, rows = stored(tmp_path, file, by_files, {"T": "String", "A": "Instant[]"}, "T = { as_text = true }")
    assert (code, [row["T"] for row in rows]) == (0, ["1970-01-01T00:00:00Z"])
