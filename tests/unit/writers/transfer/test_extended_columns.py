"""``coreplus:hive`` trees whose leaves are column files: written, appended and kept in step as those of Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import Rows, add, follow
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE
from tests.support.writers.merge_runs import FS, merge

HIVE = b'<ExtendedStorage type="coreplus:hive" format="DeephavenV1"/></Table>'


def table(root: Path, words: bytes = HIVE) -> IntradayRows:
    return IntradayRows(root, SCHEMA.replace(b"</Table>", words), fs=FS)


def check(tree: Path, rows: Rows, db: IntradayRows) -> None:
    """The Locations table names one directory a date, and those hold the rows."""
    dates = sorted({day for day, _ in rows})
    place = tree / ".locations_table"
    names = naive_reader.read(place, "Filename", "blob", len(dates))
    assert sorted(names) == sorted(path.parent.relative_to(tree).as_posix() for path in tree.glob("*/*/table.size"))
    assert naive_reader.read(place, "Format", "blob", len(dates)) == ["DEEPHAVEN"] * len(dates)
    assert not list(tree.rglob("*.parquet"))
    for name, size in zip(names, naive_reader.read(place, "Size", "long", len(dates)), strict=True):
        due = [row for day, row in rows if name.startswith(f"Date={day}/")]
        assert size == len(due)
        for column, kind in (("L", "long"), ("I", "int")):
            found = naive_reader.read(tree / name, column, kind, size)
            assert sorted(map(repr, found)) == sorted(repr(row[column]) for row in due)
    assert verify(FS, db.layout, TABLE, deep=True).findings == []


def test_column_files_are_written_appended_and_kept_in_step(tmp_path: Path) -> None:
    db, rows = table(tmp_path), Rows()
    tree = db.layout.extended(TABLE)
    add(db, rows, DAY, 20)
    merge(db.layout, DAY)
    assert follow(db).written == (DAY,)
    check(tree, rows, db)
    add(db, rows, NEXT, 9)
    merge(db.layout, NEXT)
    assert follow(db).written == (NEXT,)
    check(tree, rows, db)
    add(db, rows, DAY, 5)
    merge(db.layout, DAY)
    assert (follow(db).written, follow(db).written) == ((DAY,), ())
    check(tree, rows, db)


@pytest.mark.slow
def test_killed_at_each_step_the_next_one_ends_it(tmp_path: Path) -> None:
    db, rows = table(tmp_path), Rows()
    tree = db.layout.extended(TABLE)
    for number, phase in enumerate(("stage", "publish", "describe", "record", "clean")):
        add(db, rows, DAY, 3 + number)
        merge(db.layout, DAY)
        with pytest.raises(Crash):
            follow(db, KillingFs(crash_at=f"extended-{phase}:after"))
        follow(db)
        check(tree, rows, db)


def test_each_damaged_file_of_a_leaf_is_found_and_written_again(tmp_path: Path) -> None:
    db, rows = table(tmp_path), Rows()
    tree = db.layout.extended(TABLE)
    add(db, rows, DAY, 20)
    merge(db.layout, DAY)
    follow(db)
    files = sorted(path for path in tree.rglob("*/part-*/*") if path.stat().st_size)
    assert len(files) > 5
    for path in files[::4]:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        found = verify(FS, db.layout, TABLE, deep=True).findings
        assert [(f.severity, f.path) for f in found] == [("error", str(path))]
        path.unlink()
        follow(db)
        check(tree, rows, db)


def test_the_format_may_change(tmp_path: Path) -> None:
    db, rows = table(tmp_path, HIVE.replace(b"DeephavenV1", b"Parquet")), Rows()
    add(db, rows, DAY, 20)
    merge(db.layout, DAY)
    follow(db)
    tree = db.layout.extended(TABLE)
    assert len(list(tree.rglob("*.parquet"))) == 1
    db.log.close()
    deploy(db.fs, db.layout, SCHEMA.replace(b"</Table>", HIVE), consent=ACCEPTED)
    again = table(tmp_path)
    follow(again)
    check(tree, rows, again)


def test_other_layouts_have_parquet_only() -> None:
    words = HIVE.replace(b"coreplus:hive", b"parquet:kv")
    with pytest.raises(SchemaParseError, match="E154"):
        parse_schema(SCHEMA.replace(b"</Table>", words), "")
    assert parse_schema(SCHEMA.replace(b"</Table>", HIVE), "").schema.extended_format == "DeephavenV1"
    assert parse_schema(SCHEMA, "").schema.extended_format == "Parquet"
