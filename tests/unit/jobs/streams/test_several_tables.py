"""One feed into several tables: each row once, in its table; restarts, rejected rows, and tables that come and go."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import sparkhaven
from sparkhaven.jobs.cli.main import app
from tests.support.ingest.delta.tables import unpack
from tests.support.ingest.several_tables import (
    COLUMNS,
    Row,
    logged_files,
    put_csv,
    put_json,
    put_parquet,
    read,
    row,
    rows,
    stored,
    write_schema,
    write_stream,
)

TABLES = list(COLUMNS)
Put = Callable[[Path, str, Sequence[Row], int], Path]


def run(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), *words])


def ingest(base: Path, *words: str, exit_code: int = 0) -> list[dict[str, Any]]:
    """One run without Spark; the result of each table."""
    done = run(base / "db", "ingest", str(base / "md.toml"), "--once", "--local", "--json", *words)
    assert done.exit_code == exit_code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def require(base: Path, expected: Sequence[Row]) -> None:
    assert {table: read(base / "db", table) for table in TABLES} == {table: stored(expected, table) for table in TABLES}


@pytest.mark.parametrize(("form", "put"), [("json", put_json), ("csv", put_csv), ("parquet", put_parquet)])
def test_each_row_is_in_its_table_once(tmp_path: Path, form: str, put: Put) -> None:
    write_stream(tmp_path, f'type = "files"\npath = "{tmp_path}/feed"\nformat = "{form}"\nsettle = "0s"')
    put(tmp_path / "feed", "1", rows(0, 50), 1000)
    done = ingest(tmp_path)
    assert [(result["table"], result["rows"], result["rejected"]) for result in done] == [
        ("Md.Trade", 17, 0),
        ("Md.Quote", 17, 0),
        ("Md.Other", 16, 0),
    ]
    require(tmp_path, rows(0, 50))
    put(tmp_path / "feed", "2", rows(50, 60, "TTTQ"), 1001)
    assert [result["rows"] for result in ingest(tmp_path)] == [7, 3, 0]
    require(tmp_path, [*rows(0, 50), *rows(50, 60, "TTTQ")])
    assert [logged_files(tmp_path / "db", table) for table in TABLES] == [2, 2, 2]
    assert [result["rows"] for result in ingest(tmp_path)] == [0, 0, 0]


def test_rows_of_no_table_and_unreadable_ones_are_rejected_by_one_table(tmp_path: Path) -> None:
    write_stream(tmp_path, tables=TABLES[:2])
    path = put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    with path.open("a") as file:
        file.write(
            'not json\n{"kind": "T", "Price": "dear", "At": "2026-11-20T10:00:00Z"}\n{"Sym": "s1"}\n{"kind": 7}\n'
        )
    results = ingest(tmp_path)
    assert [(result["rows"], result["rejected"]) for result in results] == [(3, 7), (3, 0)]
    listed = run(tmp_path / "db", "quarantine", "list", "Md.Trade", "md", "--json").stdout.splitlines()
    rejected = [(value["position"], value["reason"], value["value"]) for value in map(json.loads, listed)]
    unrouted = [(number, "no-table", "X") for number in (3, 6, 9)]
    assert rejected == [
        *unrouted,
        (10, "not-json", "not json"),
        (11, "wrong-json-type", '"dear"'),
        (12, "no-table", "null"),
        (13, "no-table", "7"),
    ]
    counts = results[0]["counts"]
    assert results[0]["ignored"] == {} and counts["rejected.no-table"] == 5 and counts["rejected"] == 7


def test_rows_of_no_table_may_be_ignored_and_are_counted(tmp_path: Path) -> None:
    write_stream(tmp_path, tables=TABLES[:2], top='else = "ignore"')
    put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    results = ingest(tmp_path)
    assert [(result["rows"], result["rejected"]) for result in results] == [(3, 0), (3, 0)]
    assert [result["counts"].get("unrouted", 0) for result in results] == [3, 0]


def test_one_bad_row_too_many_commits_in_no_table(tmp_path: Path) -> None:
    write_stream(tmp_path, bad_rows="max_rows = 0")
    path = put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    path.write_text(path.read_text() + '{"kind": "Q", "Bid": "x", "At": "2026-11-20T10:00:00Z"}\n')
    (result,) = ingest(tmp_path, exit_code=1)
    assert "bad" in result["error"]["what"] and "column Bid" in str(result["error"])
    listed = json.loads(run(tmp_path / "db", "streams", "list", "--json").stdout)
    left = {each["stream"]: (each["left"], each["failure"]["error"]) for each in listed["streams"]}
    assert set(left.values()) == {("files without a log", "ErrorBudgetExceeded")}, "nothing but a note stays"


def test_a_rollback_of_one_table_brings_its_rows_alone_again(tmp_path: Path) -> None:
    write_stream(tmp_path)
    for number in range(3):
        put_json(tmp_path / "feed", str(number), rows(9 * number, 9 * number + 9), 1000 + number)
        ingest(tmp_path)
    epochs = [result["epoch"] for result in ingest(tmp_path)]
    assert epochs == [4, 4, 4]  # one that says where the table begins, and three of batches
    done = run(tmp_path / "db", "epochs", "rollback", "Md.Quote", "md", "--to", "2")
    assert done.exit_code == 0, done.output
    assert len(read(tmp_path / "db", "Md.Quote")) == 3
    results = ingest(tmp_path)
    assert [(result["rows"], result["replayed"]) for result in results] == [(0, 2), (6, 0), (0, 2)]
    require(tmp_path, rows(0, 27))


def test_a_table_added_later_begins_where_the_stream_is(tmp_path: Path) -> None:
    write_stream(tmp_path, tables=TABLES[:2], top='else = "ignore"')
    put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    ingest(tmp_path)
    write_stream(tmp_path)
    assert [result["rows"] for result in ingest(tmp_path)] == [0, 0, 0]
    put_json(tmp_path / "feed", "2", rows(9, 18), 1001)
    assert [result["rows"] for result in ingest(tmp_path)] == [3, 3, 3]
    assert [result["rows"] for result in ingest(tmp_path)] == [0, 0, 0]
    assert read(tmp_path / "db", "Md.Other") == stored(rows(9, 18), "Md.Other")


def test_a_table_that_is_taken_out_is_told_once(tmp_path: Path) -> None:
    write_stream(tmp_path)
    put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    ingest(tmp_path)
    write_stream(tmp_path, tables=TABLES[1:])
    put_json(tmp_path / "feed", "2", rows(9, 18), 1001)
    told = "table Md.Trade is not in the stream file any more"
    words = ("ingest", str(tmp_path / "md.toml"), "--once", "--local")
    assert [told in run(tmp_path / "db", *words).stderr for _ in range(2)] == [True, False]
    assert len(read(tmp_path / "db", "Md.Trade")) == 3 and len(read(tmp_path / "db", "Md.Quote")) == 6


def test_rejected_rows_are_ingested_again_into_their_table(tmp_path: Path) -> None:
    write_stream(tmp_path, tables=TABLES[:2])
    put_json(tmp_path / "feed", "1", [row(0, "T"), row(1, "t"), row(2, "X"), row(3, "Q")], 1000)
    ingest(tmp_path)
    more = {"Md.Trade": 'where = { column = "kind", equals = ["T", "t"] }'}
    write_stream(tmp_path, tables=TABLES[:2], where=more)
    done = run(tmp_path / "db", "quarantine", "requeue", "Md.Trade", "md", "--json")
    value = json.loads(done.stdout)
    assert (done.exit_code, value["sent"], value["refused"]) == (1, 1, 1), done.output
    assert len(read(tmp_path / "db", "Md.Trade")) == 2
    assert "no table" in value["refusals"][0]


def test_a_dry_run_decodes_a_sample_for_each_table(tmp_path: Path) -> None:
    write_stream(
        tmp_path,
        where={
            "Md.Trade": 'where = { column = "kid", equals = "T" }',
            "Md.Quote": 'where = { column = "kid", equals = "Q" }',
        },
        tables=TABLES[:2],
    )
    put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    results = ingest(tmp_path, "--dry-run")
    assert [result["table"] for result in results] == TABLES[:2]
    assert results[0]["sample"]["rejected"] == 9 and "column kid" in results[0]["sample"]["first"][0]
    assert results[1]["sample"] is None and not (tmp_path / "db").exists()


@pytest.mark.parametrize("late", ["supplement", "quarantine"])
def test_late_rows_are_stored_or_rejected_in_their_table_alone(tmp_path: Path, late: str) -> None:
    stream = write_stream(tmp_path)
    text = stream.read_text()
    stream.write_text(text.replace("[tables.partition]\n", f'[tables.partition]\nlate = "{late}"\n'))
    put_json(tmp_path / "feed", "1", rows(0, 9), 1000)
    ingest(tmp_path)
    for command in ("merge", "validate", "truncate"):
        done = run(tmp_path / "db", command, "Md.Quote", "--date", "2026-11-20")
        assert done.exit_code == 0, done.output
    put_json(tmp_path / "feed", "2", rows(9, 18), 1001)
    stored = [(result["rows"], result["rejected"]) for result in ingest(tmp_path)]
    assert stored == [(3, 0), (3, 0) if late == "supplement" else (0, 3), (3, 0)]
    assert len(read(tmp_path / "db", "Md.Quote")) == (6 if late == "supplement" else 3)
    listed = run(tmp_path / "db", "quarantine", "list", "Md.Quote", "md", "--json").stdout.splitlines()
    assert [json.loads(line)["reason"] for line in listed] == ["late"] * (0 if late == "supplement" else 3)


def test_a_delta_table_feeds_two_tables_by_a_column_that_is_in_no_file(tmp_path: Path) -> None:
    source = unpack(tmp_path, until=7)
    parts = []
    for table, route in (("Md.Day", 'where = { column = "day", equals = "2026-11-21" }'), ("Md.None", "else = true")):
        write_schema(tmp_path, table, {"id": "long"})
        parts.append(
            f'[[tables]]\ntable = "{table}"\nschema = "{table}.schema"\n{route}\n'
            '[tables.partition]\ninternal = { fixed = "a" }\nvalue = { fixed = "all" }\n'
        )
    feed = f'name = "md"\n[feed]\ntype = "delta"\npath = "{source}"\n[bad_rows]\nmax_rows = 0\n'
    (tmp_path / "md.toml").write_text(feed + "".join(parts))
    assert [result["rows"] for result in ingest(tmp_path)] == [14, 7]
    day, none = (
        sparkhaven.open_table(tmp_path / "db", table).to_arrow(columns=["id"])["id"].to_pylist()
        for table in ("Md.Day", "Md.None")
    )
    assert sorted(day) == [n for n in range(21) if n % 3] and sorted(none) == [*range(0, 21, 3)]
    assert [result["rows"] for result in ingest(tmp_path)] == [0, 0]


def test_records_over_lines_stay_whole(tmp_path: Path) -> None:
    write_stream(tmp_path, f'type = "files"\npath = "{tmp_path}/feed"\nformat = "csv"\nsettle = "0s"')
    every = [row | {"Sym": f'{row["Sym"]}\n,"T"'} if n % 2 else row for n, row in enumerate(rows(0, 40))]
    put_csv(tmp_path / "feed", "1", every, 1000)
    assert [result["rejected"] for result in ingest(tmp_path)] == [0, 0, 0]
    require(tmp_path, every)


@pytest.mark.parametrize(("form", "put"), [("json", put_json), ("csv", put_csv), ("parquet", put_parquet)])
def test_a_schema_is_inferred_from_the_rows_of_its_table(tmp_path: Path, form: str, put: Put) -> None:
    write_stream(tmp_path, f'type = "files"\npath = "{tmp_path}/feed"\nformat = "{form}"\nsettle = "0s"')
    put(tmp_path / "feed", "1", rows(0, 30), 1000)
    done = run(tmp_path / "db", "schema", "infer", str(tmp_path / "md.toml"), "--table", "Md.Quote", "--json")
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert [column["field"] for column in value["columns"] if column["name"]] == ["kind", "Sym", "At", "Bid", "Ask"]
    assert value["rows"] == 10 and value["remarks"] == []
    wrong = run(tmp_path / "db", "schema", "infer", str(tmp_path / "md.toml"), "--table", "Md.Quotes", "--json")
    assert (wrong.exit_code, json.loads(wrong.stdout)["error"]["expected"]) == (2, "Md.Trade, Md.Quote, Md.Other")
