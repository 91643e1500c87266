"""One object asked many things: no question changes the answer to another one."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers import Snapshot, open_table
from sparkhaven.readers.sql.query import open_query
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import LocationKey
from tests.support.tables.small_tables import SmallTable
from tests.unit.readers.spark.test_stream import removed

pytestmark = pytest.mark.slow
D1, D2, D3 = "2026-11-19", "2026-11-20", "2026-11-21"
Question = Callable[[Snapshot], Any]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    """Two streams, three dates, the first of them in history."""
    made = SmallTable(tmp_path_factory.mktemp("asked") / "db")
    for first, (source, date) in enumerate(itertools.product("ab", (D1, D2, D3))):
        numbers = range(100 * first, 100 * first + 20)
        made.add(
            source, date, {"Sym": [f"s{n % 3}" for n in numbers], "Size": [*numbers], "Px": [n / 4 for n in numbers]}
        )
    made.merge_by_hand(D1)
    return made


def _rows(found: pa.Table | pa.RecordBatchReader) -> list[dict[str, Any]]:
    table = found if isinstance(found, pa.Table) else found.read_all()
    return list(table.to_pylist())


def by_duckdb(t: Snapshot) -> list[Any]:
    """By a connection of its own: the default one refuses a second thread."""
    with duckdb.connect() as connection:
        return list(connection.sql("select Sym, sum(Size) from t group by Sym order by Sym").fetchall())


QUESTIONS: dict[str, Question] = {
    "all": lambda t: _rows(t.to_arrow()),
    "plain texts": lambda t: _rows(t.to_arrow(dictionaries=False)),
    "a filter": lambda t: _rows(t.to_arrow(where="Size > 299")),
    "a filter of none": lambda t: _rows(t.to_arrow(where="Size > 30000")),
    "other columns": lambda t: _rows(t.to_arrow(["Px", "Date"], where="Sym = 's1'")),
    "one column": lambda t: _rows(t.to_arrow("Size")),
    "a date": lambda t: _rows(t.to_arrow("Size", dates=D2)),
    "dates and sources": lambda t: _rows(t.to_arrow("Size", dates=f"{D2}..{D3}", sources="b")),
    "history": lambda t: _rows(t.to_arrow("Size", tier="history")),
    "intraday": lambda t: _rows(t.to_arrow("Size", tier="intraday")),
    "count": lambda t: (t.count(), t.count(where="Size < 5"), t.count(dates=D3)),
    "small batches": lambda t: _rows(t.to_batches("Size", batch_rows=3)),
    "the first batch only": lambda t: next(iter(t.to_batches("Size", batch_rows=3))).to_pylist(),
    "batches of a filter": lambda t: _rows(t.to_batches(["Sym", "Size"], where="Size in (1, 201, 401)")),
    "values and sources": lambda t: (t.dates(), t.sources(), t.dates(tier="history")),
    "pyarrow": lambda t: _rows(pa.table(t)),
    "polars": lambda t: polars.DataFrame(t).to_dicts(),
    "duckdb": by_duckdb,
    "a schema": lambda t: _rows(pa.RecordBatchReader.from_stream(t, t.arrow_schema(dictionaries=False))),
}


def test_a_table_answers_each_question_as_if_it_were_the_first(small: SmallTable) -> None:
    fresh = {name: ask(open_table(small.root, "NS.T")) for name, ask in QUESTIONS.items()}
    table, rng = open_table(small.root, "NS.T"), random.Random(7)
    for _ in range(4):
        for name in rng.sample(list(QUESTIONS), len(QUESTIONS)):
            assert QUESTIONS[name](table) == fresh[name], name
    names = list(QUESTIONS) * 3
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda name: QUESTIONS[name](table), names))
    assert found == [fresh[name] for name in names]


def test_streams_of_one_table_run_side_by_side(small: SmallTable) -> None:
    table = open_table(small.root, "NS.T")
    streams = [table.to_batches("Size", batch_rows=3), table.to_batches("Size", where="Size > 299", batch_rows=4)]
    streams += [pa.RecordBatchReader.from_stream(table).cast(pa.RecordBatchReader.from_stream(table).schema)]
    found: list[list[int]] = [[], [], []]
    live = dict(enumerate(streams))
    while live:
        for number, stream in list(live.items()):
            batch = next(stream, None)
            if batch is None:
                del live[number]
            else:
                found[number] += batch.column("Size").to_pylist()
    every = table.to_arrow("Size")["Size"].to_pylist()
    assert found == [every, [n for n in every if n > 299], every]


def test_duckdb_asks_a_table_under_two_names_and_a_relation_twice(small: SmallTable) -> None:
    table = open_table(small.root, "NS.T")
    with duckdb.connect() as connection:
        for name in ("x", "y", "x"):
            connection.register(name, table)
        relation = connection.sql("from x")
        part = relation.filter("Size > 299")
        count = "count(*)"
        for _ in range(2):
            assert part.aggregate(count).fetchall() == [(60,)]
            assert relation.aggregate(count).fetchall() == [(120,)]
            assert relation.limit(3).aggregate(count).fetchall() == [(3,)]
            assert part.union(relation).aggregate(count).fetchall() == [(180,)]
            assert relation.except_(part).aggregate(count).fetchall() == [(60,)]
            assert connection.sql("select count(*) from x join y using (Size) where y.Size < 5").fetchall() == [(5,)]
            query = (
                "select (select count(*) from x where Size > 299), (select count(*) from x), (select max(Size) from y)"
            )
            assert connection.sql(query).fetchall() == [(60, 120, 519)]
            assert connection.sql("with t as (from x) select count(*) from t where Size < 5 union all from (select count(*) from t)").fetchall() == [(5,), (120,)]  # fmt: skip  # noqa: E501


def test_sql_is_asked_again_and_again(small: SmallTable) -> None:
    queries = {
        "select count(*) n from NS.T where Size > 299": [60],
        "select count(*) n from NS.T": [120],
        "select count(*) n from NS.T where Size < 2 union all select count(*) from NS.T": [2, 120],
        "select count(*) n from NS.T a left join (from NS.T where Size < 2) b using (Size)": [120],
        "select count(*) n from (from NS.T except all from NS.T where Size > 299)": [60],
        f"select count(*) n from NS.T where Date = '{D1}'": [40],
        "select Size n from NS.T order by 1 limit 2": [0, 1],
    }
    for _ in range(2):
        for query, expected in queries.items():
            assert sparkhaven.sql(small.root, query)["n"].to_pylist() == expected, query
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda query: sparkhaven.sql(small.root, query)["n"].to_pylist(), [*queries] * 2))
    assert found == [*queries.values()] * 2
    with open_query(small.root, next(iter(queries))) as one, open_query(small.root, [*queries][1]) as other:
        assert (other.batches.read_all()["n"].to_pylist(), one.batches.read_all()["n"].to_pylist()) == ([120], [60])


def test_an_error_of_one_question_leaves_the_next_alone(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.add("a", D1, {"Size": [1, 2]})
    small.add("a", D2, {"Size": [3]})
    table = open_table(small.root, "NS.T")
    (small.location("a", D1) / "Size.dat").unlink()
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            table.to_arrow("Size")
        assert table.to_arrow("Size", dates=D2)["Size"].to_pylist() == [3]
        assert table.count() == 3


# --- what Spark plans with -----------------------------------------------------------------------------------


def _planned(source: DeephavenSource, schema: Any) -> list[int]:
    """A plan of one of Spark's processes, which gets the source pickled."""
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    tasks = pickle.loads(pickle.dumps(reader.partitions()))
    batches = (batch for task in tasks for batch in pickle.loads(pickle.dumps(reader)).read(task))
    return sorted(value for batch in batches for value in batch.column(0).to_pylist())


def test_plans_of_one_frame_are_of_one_snapshot_whatever_happens_meanwhile(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.add("a", D1, {"Size": [1, 2]})
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Size"})
    schema = source.schema()
    small.add("a", D1, {"Size": [3]})
    small.add("b", D2, {"Size": [4]})
    later = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Size"})
    later_schema = later.schema()
    for _ in range(2):
        assert (_planned(source, schema), _planned(later, later_schema)) == ([1, 2], [1, 2, 3, 4])
    small.merge_by_hand(D1)
    assert (_planned(source, schema), _planned(later, later_schema)) == ([1, 2], [1, 2, 3, 4])
    options: list[dict[str, str]]
    options = [{"where": "Size > 2"}, {"dates": D2}, {"sources": "b", "dates": D2}, {}]
    many = [DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Size", **more}) for more in options]
    schemas = [one.schema() for one in many]
    for _ in range(2):
        found = [_planned(one, schema) for one, schema in zip(many, schemas, strict=True)]
        assert found == [[3, 4], [4], [4], [1, 2, 3, 4]]


def test_a_plan_after_a_merge_and_a_truncation_has_the_rows_of_history(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.add("a", D1, {"Size": [1, 2]})
    small.add("a", D2, {"Size": [3]})
    options = {"root": str(small.root), "path": "NS.T", "columns": "Size"}
    every, late = DeephavenSource(options), DeephavenSource({**options, "dates": D2})
    schema, late_schema = every.schema(), late.schema()
    small.merge_by_hand(D1)
    assert (_planned(every, schema), _planned(late, late_schema)) == ([1, 2, 3], [3])
    removed(small, LocationKey("a", D1), "truncate")
    merged = DeephavenSource(options)
    merged_schema = merged.schema()
    older = DeephavenSource({**options, "epoch": "1"})
    small.add("a", D2, {"Size": [4]})
    for _ in range(2):
        assert (_planned(every, schema), _planned(late, late_schema)) == ([1, 2, 3], [3])  # history has the same rows
        assert _planned(merged, merged_schema) == [1, 2, 3]
    removed(small, LocationKey("a", D1), "delete")
    assert (_planned(every, schema), _planned(merged, merged_schema)) == ([1, 2, 3], [1, 2, 3])
    assert _planned(older, older.schema()) == [1, 2]


def test_a_reader_of_a_stream_plans_a_batch_as_often_as_it_is_asked(small: SmallTable) -> None:
    source = DeephavenSource({"root": str(small.root), "path": "NS.T", "columns": "Size"})
    schema = source.schema()
    first, second = (pickle.loads(pickle.dumps(source)).streamReader(schema) for _ in range(2))

    def rows(reader: Any, start: dict[str, int], end: dict[str, int]) -> list[int]:
        batches = (batch for task in reader.partitions(start, end) for batch in reader.read(task))
        return sorted(value for batch in batches for value in batch.column(0).to_pylist())

    newest = first.latestOffset({}, first.getDefaultReadLimit())
    assert second.latestOffset({}, second.getDefaultReadLimit()) == newest == first.reportLatestOffset()
    every = rows(first, {}, newest)
    between = {"s": 3}, {"s": 5}
    part = rows(first, *between)
    for reader in (first, second, first):
        assert (rows(reader, *between), rows(reader, {}, newest), rows(reader, *between)) == (part, every, part)
    assert (len(every), len(part)) == (120, 40)
