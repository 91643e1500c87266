"""Queries and conditions over dates, times and decimals: the right rows, asked twice, and few that are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sparkhaven
from sparkhaven.readers.sql.query import open_query
from sparkhaven.store.errors import SettingsError
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, coded_row, coded_table
from tests.support.writers.merge_runs import FS, merge

Row = dict[str, Any]
EPOCHS, ROWS = 6, 50
HOUR = 3_600_000_000_000


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A table whose dates, times and decimals rise from epoch to epoch."""
    root = tmp_path_factory.mktemp("coded")
    chance = random.Random(5)
    db = IntradayRows(root, SCHEMA, fs=FS, statistics=True)
    rows: list[Row] = []
    for epoch in range(EPOCHS):
        part = []
        for number in range(epoch * ROWS, (epoch + 1) * ROWS):
            row = coded_row(chance, number) | {
                "Far": date(2024, 1, 1) + timedelta(number),
                "Clock": epoch * HOUR + number,
                "Px": Decimal(number) / 10,
                "Whole": Decimal(number - 100),
                "Wide": Decimal(number) / 10,
            }
            for name in ("Far", "Clock", "Px", "Whole", "Wide"):
                row[name] = None if chance.random() < 0.1 else row[name]
            part.append(row)
        db.commit({(f"s{epoch}", DAY): coded_table(db.schema, part)})
        rows += part
    return root, rows


def numbers(rows: list[Row], keep: Callable[[Row], bool], *names: str) -> list[int]:
    return [row["N"] for row in rows if all(row[name] is not None for name in names) and keep(row)]


CASES: list[tuple[str, str, str, Callable[[Row], bool], int]] = [
    ("\"Far\" = '2024-01-11'", "Far = '2024-01-11'", "Far", lambda r: r["Far"] == date(2024, 1, 11), 1),
    ("\"Far\" >= date '2024-09-01'", "Far >= '2024-09-01'", "Far", lambda r: r["Far"] >= date(2024, 9, 1), 2),
    (
        "\"Far\" in ('2024-01-01', '2024-01-02', '2024-01-03')",
        "Far in ('2024-01-01', '2024-01-02', '2024-01-03')",
        "Far",
        lambda r: r["Far"] < date(2024, 1, 4),
        1,
    ),
    (
        "\"Far\" between '2024-02-01' and '2024-02-03'",
        "Far >= '2024-02-01' and Far <= '2024-02-03'",
        "Far",
        lambda r: date(2024, 2, 1) <= r["Far"] <= date(2024, 2, 3),
        1,
    ),
    ("\"Clock\" < '01:00:00'", "Clock < '01:00'", "Clock", lambda r: r["Clock"] < HOUR, 1),
    (
        "\"Clock\" = '01:00:00.00000006'",
        "Clock = '01:00:00.00000006'",
        "Clock",
        lambda r: r["Clock"] == HOUR + 60,
        1,
    ),
    ('"Px" = 0.1', "Px = 0.1", "Px", lambda r: r["Px"] == Decimal("0.1"), 1),
    ('"Px" > 24.95', "Px > 24.95", "Px", lambda r: r["Px"] > Decimal("24.95"), 1),
    ('"Px" in (0.1, 0.25, 3)', "Px in (0.1, 0.25, 3)", "Px", lambda r: r["Px"] in (Decimal("0.1"), 3), 1),
    ('not ("Px" < 25)', "not (Px < 25)", "Px", lambda r: r["Px"] >= 25, 1),
    ('"Whole" <= -51', "Whole <= -51", "Whole", lambda r: r["Whole"] <= -51, 1),
    ('"Px" > 12.3456789', "Px > 12.3456789", "Px", lambda r: r["Px"] > Decimal("12.3456789"), EPOCHS),
    ('"Px" = "N" / 10', "Px = Wide", "Px", lambda r: r["Wide"] is not None, EPOCHS),
]


@pytest.mark.parametrize(("query", "where", "name", "keep", "epochs"), CASES, ids=[case[0] for case in CASES])
def test_sql_and_where_find_the_same_rows_in_few(
    rising: tuple[Path, list[Row]], query: str, where: str, name: str, keep: Callable[[Row], bool], epochs: int
) -> None:
    root, rows = rising
    expected = numbers(rows, keep, name)
    if " / " not in query:
        for _ in range(2):
            with open_query(root, f'select "N" from Test.Coded where {query} order by 1') as result:
                assert [row["N"] for row in result.batches.read_all().to_pylist()] == expected
                assert result.scans[0].rows_read <= epochs * ROWS
    opened = sparkhaven.open_table(root, "Test.Coded")
    for _ in range(2):
        assert sorted(opened.to_arrow(["N"], where=where)["N"].to_pylist()) == expected
        assert opened.to_arrow().num_rows == len(rows)
        assert opened.count(where=where) == len(expected)
    counts: list[int] = []
    opened.to_batches(["N"], where=where, on_read=counts.append).read_all()
    assert sum(counts) <= epochs * ROWS


@pytest.mark.parametrize("name", COLUMNS)
def test_sql_knows_which_values_are_null(rising: tuple[Path, list[Row]], name: str) -> None:
    root, rows = rising
    query = f'select "N" from Test.Coded where "{name}" is null order by 1'
    nulls = [row["N"] for row in rows if row[name] is None]
    assert sparkhaven.sql(root, query)["N"].to_pylist() == nulls
    found = sparkhaven.open_table(root, "Test.Coded").to_arrow(["N"], where=f"{name} is null")
    assert sorted(found["N"].to_pylist()) == nulls


def test_decimals_of_more_than_38_digits_are_texts_in_sql(rising: tuple[Path, list[Row]]) -> None:
    root, rows = rising
    found = sparkhaven.sql(root, 'select "Wide" from Test.Coded order by "N"')["Wide"].to_pylist()
    texts = [None if row["Wide"] is None else f"{row['Wide'].normalize():f}" for row in rows]
    assert found == texts
    query = 'select "N" from Test.Coded where "Wide" = \'1.5\' or "Wide" > \'9\' order by 1'
    expected = [row["N"] for row, text in zip(rows, texts, strict=True) if text and (text == "1.5" or text > "9")]
    assert sparkhaven.sql(root, query)["N"].to_pylist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_history_has_the_same_rows(rising: tuple[Path, list[Row]], tmp_path: Path, form: str) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS, statistics=True)
    db.commit({("a", DAY): coded_table(db.schema, rising[1])})
    merge(db.layout, table=db.table, format=form)
    opened = sparkhaven.open_table(tmp_path, "Test.Coded")
    for where in ("Far < '2024-01-01'", "Clock > '05:00:00.0000003'", "Px in (-0.05, 30)", "Whole > 200"):
        counts: list[int] = []
        opened.to_batches(["N"], where=where, on_read=counts.append).read_all()
        assert sum(counts) == 0, where
    for query, where, name, keep, _ in CASES:
        expected = numbers(rising[1], keep, name)
        assert sorted(opened.to_arrow(["N"], where=where, tier="history")["N"].to_pylist()) == expected
        if " / " not in query:
            found = sparkhaven.sql(tmp_path, f'select "N" from Test.Coded where {query} order by 1', tier="history")
            assert found["N"].to_pylist() == expected


def test_a_time_literal_is_answered_with_what_to_type(rising: tuple[Path, list[Row]]) -> None:
    root, rows = rising
    for condition in ("\"Clock\" >= time '01:00:00'", "\"Clock\" + interval 1 hour > '02:00'"):
        with pytest.raises(SettingsError) as caught:
            sparkhaven.sql(root, f'select "N" from Test.Coded where {condition}')
        assert "Compare it with a text: T >= '13:30'" in str(caught.value.hint) and "T::TIME" in str(caught.value.hint)
    late = sum(row["Clock"] is not None and row["Clock"] >= HOUR for row in rows)
    for condition in ("\"Clock\" >= '01:00'", "\"Clock\"::TIME >= time '01:00'", 'hour("Clock") >= 1'):
        assert sparkhaven.sql(root, f"select count(*) n from Test.Coded where {condition}")["n"].to_pylist() == [late]
