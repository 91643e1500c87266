"""Tables of Spark's Delta with deletion vectors, column mapping, checkpoints of version 2 and widened types.

What a feed and an import take of them is what Spark reads.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.feeds.delta.versions import changes_of, look, snapshot
from sparkhaven.store.delta.log import LOG, SIDECARS, list_log, version_file
from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.transfer.leaf_readers import open_leaf
from sparkhaven.writers.transfer.trees import delta_tree
from tests.support.ingest.delta.features import unpack_features
from tests.support.ingest.delta.rows import taken
from tests.support.ingest.ingest_cases import schema

FS = Fs()
PLAIN = {"id": "long", "name": "String"}
MAPPED = {"id": "long", "name": "String", "s": "String", "m": "String", "on": "String", "swap": "String"}
DATED = {"id": "long", "name": "String", "day": "String"}
COLUMNS = {
    "vectors": PLAIN,
    "by-name": MAPPED,
    "by-id": MAPPED,
    "upgraded": {"id": "long", "label": "String"},
    "v2-json": DATED,
    "v2-parquet": DATED,
    "widened": {"id": "long", "v": "int", "f": "double", "e": "String", "p": "long"},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[list[Any]]]]:
    """The golden tables, and the rows that Spark reads of them."""
    base = tmp_path_factory.mktemp("delta")
    return base, unpack_features(base)


def plain(value: Any) -> Any:
    """A text of JSON as its values, without those that are null, which Spark leaves out; a decimal as its value."""
    if isinstance(value, str) and value.startswith("{"):
        return _without_nulls(json.loads(value))
    return Decimal(value) if isinstance(value, str) and value.replace(".", "", 1).isdigit() else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", COLUMNS)
def test_a_feed_takes_what_spark_reads(tables: tuple[Path, dict[str, list[list[Any]]]], name: str) -> None:
    base, rows = tables
    got = sorted(taken(base / name, **COLUMNS[name]), key=lambda row: row["id"])
    expected = [dict(zip(COLUMNS[name], row, strict=True)) for row in rows[name]]
    assert [{key: plain(value) for key, value in row.items()} for row in got] == [
        {key: plain(value) for key, value in row.items()} for row in expected
    ]
    assert len(got) > 1


def test_changes_by_deletion_vectors_bring_no_row_twice(tables: tuple[Path, dict[str, list[list[Any]]]]) -> None:
    table = tables[0] / "vectors"
    changes = [changed for version in range(8) if (changed := changes_of(FS, table, version)) is not None]
    assert [changed.operation for changed in changes][3:] == ["DELETE", "UPDATE", "DELETE", "RESTORE", "DELETE"]
    assert [len(changed.added) for changed in changes][:4] == [0, 1, 1, 0]  # a first vector brings no row
    got = taken(table, 0, **PLAIN)
    counts = Counter((row["id"], row["name"]) for row in got)
    back = {(n, f"n{n}") for n in (5, *range(600, 701)) if n % 7}  # by RESTORE
    assert {key for key, count in counts.items() if count == 2} == back
    assert counts.keys() == {*((n, f"n{n}") for n in range(1000)), (5, "u")}


def test_a_snapshot_that_a_stream_is_in_has_the_rows_of_its_version(tmp_path: Path) -> None:
    unpack_features(tmp_path)
    table = tmp_path / "vectors"
    for version in range(8):
        files = snapshot(FS, table, version)
        assert sum(file.vector.rows for file in files if file.vector) == [0, 0, 0, 143, 144, 230, 143, 152][version]


def test_checkpoints_of_version_2_say_what_the_versions_say(tmp_path: Path) -> None:
    unpack_features(tmp_path)
    for name, suffix in (("v2-json", ".json"), ("v2-parquet", ".parquet")):
        table = tmp_path / name
        listing = list_log(FS, table)
        assert {n: [Path(file).suffix for file in files] for n, files in listing.checkpoints.items()} == {
            2: [suffix],
            4: [suffix],
        }
        files = snapshot(FS, table, 4)
        for files_of in listing.checkpoints.values():
            (table / LOG / files_of[0]).rename(table / files_of[0])
        assert snapshot(FS, table, 4) == files  # from the versions alone
        (table / listing.checkpoints[4][0]).rename(table / LOG / listing.checkpoints[4][0])
        for version in range(5):
            version_file(table, version).unlink()
        assert snapshot(FS, table, 4) == files and look(FS, table).latest == 4
        sidecars = [*(table / LOG / SIDECARS).iterdir()]
        for path in sidecars:
            path.write_bytes(b"PAR1")
        with pytest.raises(CorruptFileError, match="Delta log is damaged"):
            snapshot(FS, table, 4)
        for path in sidecars:
            path.unlink()
        with pytest.raises(CorruptFileError, match="Delta log is damaged") as caught:
            snapshot(FS, table, 4)
        assert "no such file" in str(caught.value.found)


@pytest.mark.parametrize("name", ["vectors", "upgraded"])
def test_an_import_takes_what_spark_reads(tables: tuple[Path, dict[str, list[list[Any]]]], name: str) -> None:
    base, rows = tables
    table = schema(**COLUMNS[name])
    got: list[list[Any]] = []
    for leaf in delta_tree(FS, base / name, table).leaves:
        reader = open_leaf(FS, leaf, table, "2026-11-20")
        before = len(got)
        for part in reader.read("2026-11-20"):
            got += [list(row) for row in zip(*(array.to_pylist() for array in part.columns), strict=True)]
        assert len(got) - before == reader.rows == reader.counts().get("2026-11-20", 0)
    assert sorted(got) == rows[name]


def test_a_quarantine_of_such_a_table_is_refused(tables: tuple[Path, dict[str, list[list[Any]]]]) -> None:
    for name, what in (("vectors", "deletion vector"), ("by-name", "column mapping"), ("v2-json", "version 2")):
        with pytest.raises(UnsupportedVersionError, match="not read") as caught:
            read_snapshot(FS, tables[0] / name)
        assert what in str(caught.value.found)
