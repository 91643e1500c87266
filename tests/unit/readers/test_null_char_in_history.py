"""The null of char that a reader is told, in each tier and format: every reader shows after a merge what it did before.

A merge writes the units of column files, or of arrays in them, as what they are today. In Parquet a null is no unit.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.layout import TableName
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.null_chars import COUNT, DAY, FORMS, NAME, OLD, SCHEMA, Rows, rows_with, shown, table_in
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, IntradayRows]:
    return {form: table_in(tmp_path_factory.mktemp(form) / "db", form, rows_with(OLD)) for form in FORMS}


@pytest.fixture(params=FORMS)
def db(request: pytest.FixtureRequest, tables: dict[str, IntradayRows]) -> IntradayRows:
    return tables[request.param]


@pytest.fixture(params=[None, OLD])
def null(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """What the rows have where files have 0xFFFE: null where the process is told so."""
    if request.param is None:
        monkeypatch.setenv("SPARKHAVEN_NULL_CHAR", "0xFFFE")
    unit: int | None = request.param
    return unit


def arrow(db: IntradayRows, where: str | None = None) -> Rows:
    return shown(open_table(db.root, NAME).to_arrow(["C", "Cs"], where=where))


def batches(db: IntradayRows) -> Rows:
    read = open_table(db.root, NAME).to_batches(["C", "Cs"], batch_rows=7)
    return [row for batch in read for row in shown(pa.Table.from_batches([batch]))]


def by_query(db: IntradayRows) -> Rows:
    return shown(sparkhaven.sql(db.root, f"select * from {NAME} order by N"))


def by_data_source(db: IntradayRows) -> Rows:
    source = DeephavenSource({"root": str(db.root), "path": NAME, "char": "int"})
    reader = source.reader(source.schema())
    again = pickle.loads(pickle.dumps(reader))
    return [row for task in reader.partitions() for b in again.read(task) for row in shown(pa.Table.from_batches([b]))]


def by_command(db: IntradayRows) -> Rows:
    out = db.root.parent / "rows.parquet"
    out.unlink(missing_ok=True)
    assert run(db.root, "read", NAME, "--out", out).exit_code == 0
    return shown(pq.read_table(out))


READERS = [arrow, batches, by_query, by_data_source, by_command]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_reader_shows_the_null(db: IntradayRows, null: int | None, read: Callable[[IntradayRows], Rows]) -> None:
    assert read(db) == rows_with(null)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_null_today_is_then_a_value(tmp_path: Path, form: str) -> None:
    db = table_in(tmp_path / "db", form, rows_with(OLD) + rows_with(None))
    table = open_table(db.root, NAME, null_char="0xFFFE")
    assert shown(table.to_arrow(["C", "Cs"])) == rows_with(None) + rows_with(CHAR_NULL)
    assert open_table(db.root, NAME).to_arrow(["C"], where="C is null").num_rows == COUNT // 2


def test_filters(db: IntradayRows, null: int | None) -> None:
    nulls, units = (COUNT // 2, 0) if null is None else (0, COUNT // 2)
    counts = [len(arrow(db, where)) for where in ("C is null", "C = '￾'", "C = '￿'", "C = 'A'")]
    assert counts == [nulls, units, 0, COUNT // 4]
    assert arrow(db, "N >= 1 and N < 6") == rows_with(null)[1:6]
    query = f"select count(*) from {NAME} where"
    for condition, count in (("C is null", nulls), ("C is not null", COUNT - nulls), ("C = 65", COUNT // 4)):
        assert sparkhaven.sql(db.root, f"{query} {condition}").column(0).to_pylist() == [count], condition


@pytest.mark.parametrize("leaf", ["parquet", "deephaven"])
def test_exports(db: IntradayRows, null: int | None, leaf: str, tmp_path: Path) -> None:
    """Another table takes the tree: its null is that of today."""
    done = run(db.root, "export", NAME, "--out", tmp_path / "tree", "--layout", "hive", "--leaf", leaf)
    assert done.exit_code == 0, done.stderr
    other = IntradayRows(tmp_path / "other", SCHEMA, fs=FS)
    add_partition(FS, other.layout, "Test", "0")
    words = ["--from", tmp_path / "tree", "--layout", "hive", "--null-char", "0xFFFF"]
    done = run(other.root, "import", NAME, *words)
    assert done.exit_code == 0, done.stderr
    assert shown(open_table(other.root, NAME, null_char="0xFFFF").to_arrow()) == rows_with(null)


@pytest.mark.parametrize("pair", [*combinations(FORMS, 2)], ids="-".join)
def test_comparisons(tables: dict[str, IntradayRows], null: int | None, pair: tuple[str, str], tmp_path: Path) -> None:
    one, other = (tables[form] for form in pair)
    assert run(one.root, "compare", str(other.root), NAME).exit_code == 0
    changed = table_in(tmp_path / "db", pair[1], rows_with(None))
    assert run(one.root, "compare", str(changed.root), NAME).exit_code != 0


@pytest.mark.parametrize("form", FORMS[1:])
def test_validations(tables: dict[str, IntradayRows], null: int | None, form: str) -> None:
    """Rules see nulls; what history is proved by does not depend on them."""
    results = validate_date(tables[form].place, DAY).results
    assert [result.passed for result in results[-2:]] == [null is None] * 2
    assert all(result.passed for result in results[:-2])


def test_verify_finds_nothing(db: IntradayRows, null: int | None) -> None:
    assert verify(FS, db.layout, TableName.parse(NAME), deep=True).errors == 0


def test_an_engine_gets_its_own_null(db: IntradayRows, null: int | None) -> None:
    table = LiveTable(db.place, null_char=OLD if null is None else CHAR_NULL)
    chars, arrays = (table.values(table.places()[0], name, 0, COUNT, COUNT) for name in ("C", "Cs"))
    numbers = chars.to_pylist() if chars.null_count else np.frombuffer(chars.buffers()[1], np.uint16, COUNT).tolist()
    assert [None if unit == CHAR_NULL else unit for unit in numbers] == [unit for unit, _ in rows_with(null)]
    assert arrays.to_pylist() == [units for _, units in rows_with(null)]


@pytest.mark.parametrize("unit", [65, OLD, CHAR_NULL])
def test_an_index_hides_no_row_from_an_engine(db: IntradayRows, null: int | None, unit: int) -> None:
    """An index has the null of today."""
    table = LiveTable(db.place, null_char=OLD if null is None else CHAR_NULL)
    (place,) = table.places()
    rows = table.indexed_rows(place, "C", [unit])
    wanted = {n for n, (value, _) in enumerate(rows_with(null)) if unit == (CHAR_NULL if value is None else value)}
    assert rows is None or wanted <= set(rows.positions.tolist())
    assert table.is_indexed("C") is (null is not None)
