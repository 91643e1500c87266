"""Fields that are not those of the columns: counted and told, or refused, by ``required`` and ``contract``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from sparkhaven import open_table
from sparkhaven.jobs.monitor.logs.log_tables import INGEST
from tests.support.commands import run, run_json
from tests.support.streams.log_rows import rows_of

SCHEMA = """<Table namespace="F" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="Price" dataType="double"/>
</Table>
"""
STREAM = """name = "s"
table = "F.T"
schema = "F.T.schema"
{top}
[feed]
type = "files"
path = "feed/*"
format = "{form}"
settle = "0 s"
{feed}
[columns]
{columns}
[partition]
internal = {{ fixed = "0" }}
value = {{ fixed = "2026-11-20" }}
[bad_rows]
max_fraction = 1.0
"""
Row = Mapping[str, Any]
WHOLE: Row = {"Sym": "A", "Price": 1.5}
RENAMED: Row = {"Sym": "B", "Px": 2.5}
MORE: Row = {"Sym": "C", "Price": 3.5, "Venue": "N"}
FORMS = ["json", "csv", "parquet"]


def write(base: Path, form: str = "json", *, columns: str = "", top: str = "") -> Path:
    (base / "F.T.schema").write_text(SCHEMA)
    feed = "" if form == "json" else 'missing_columns = "null"'
    (base / "s.toml").write_text(STREAM.format(form=form, columns=columns, top=top, feed=feed))
    return base / "s.toml"


def put(base: Path, name: str, rows: Sequence[Row], form: str = "json") -> None:
    (base / "feed").mkdir(exist_ok=True)
    path = base / "feed" / name
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        return
    lines = [json.dumps(row) for row in rows]
    if form == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("".join(line + "\n" for line in lines))


def ingest(base: Path, *words: str) -> Result:
    return run(base / "db", "ingest", base / "s.toml", "--once", "--local", *words)


def stored(base: Path) -> list[tuple[str, float | None]]:
    table = open_table(base / "db", "F.T").to_arrow(["Sym", "Price"])
    return sorted((row["Sym"], row["Price"]) for row in table.to_pylist())


def quarantined(base: Path) -> list[tuple[str, str | None]]:
    found = run(base / "db", "quarantine", "list", "F.T", "s", "--json")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    return [(row["reason"], row["column"]) for row in rows]


# --- required --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("columns", ["Price = { required = true }", "required = true"])
def test_a_row_without_a_required_value_is_a_bad_row(tmp_path: Path, form: str, columns: str) -> None:
    write(tmp_path, form, columns=columns)
    put(tmp_path, "1", [WHOLE], form)
    put(tmp_path, "2", [RENAMED], form)
    assert ingest(tmp_path).exit_code == 0
    assert (stored(tmp_path), quarantined(tmp_path)) == ([("A", 1.5)], [("required", "Price")])


def test_null_is_no_value_and_a_default_has_exceptions(tmp_path: Path) -> None:
    write(tmp_path, columns="required = true\nSym = { required = false }")
    put(tmp_path, "1", [{"Sym": None, "Price": 1.0}, {"Price": 2.0}, {"Sym": "x", "Price": None}])
    assert ingest(tmp_path).exit_code == 0
    assert ([price for _, price in stored_unsorted(tmp_path)], quarantined(tmp_path)) == (
        [1.0, 2.0],
        [("required", "Price")],
    )


def stored_unsorted(base: Path) -> list[tuple[Any, Any]]:
    table = open_table(base / "db", "F.T").to_arrow(["Sym", "Price"])
    return [(row["Sym"], row["Price"]) for row in table.to_pylist()]


def test_the_reason_names_the_field_that_may_be_meant(tmp_path: Path) -> None:
    write(tmp_path, columns="Price = { required = true }")
    put(tmp_path, "1", [{"Sym": "B", "price": 2.5}])
    code, plan = run_json(tmp_path / "db", "ingest", tmp_path / "s.toml", "--dry-run")
    assert code == 0 and "did you mean price?" in plan["sample"]["first"][0]


def test_a_row_that_got_its_value_is_requeued(tmp_path: Path) -> None:
    write(tmp_path, columns="Price = { required = true }")
    put(tmp_path, "1", [WHOLE, RENAMED])
    assert ingest(tmp_path).exit_code == 0
    assert run(tmp_path / "db", "quarantine", "requeue", "F.T", "s").exit_code == 1
    write(tmp_path)
    assert run(tmp_path / "db", "quarantine", "requeue", "F.T", "s").exit_code == 0
    assert stored_unsorted(tmp_path) == [("A", 1.5), ("B", None)]


# --- contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", [RENAMED, MORE, {"Sym": "D"}], ids=["renamed", "more", "less"])
@pytest.mark.parametrize("contract", ["evolve", "discard-value", "discard-row", "freeze"])
def test_what_a_contract_makes_of_other_fields(tmp_path: Path, form: str, other: Row, contract: str) -> None:
    write(tmp_path, form, columns=f'contract = {{ columns = "{contract}" }}')
    put(tmp_path, "1", [WHOLE, WHOLE], form)
    put(tmp_path, "2", [other], form)
    found = ingest(tmp_path, "--json")
    unknown, absent = {"Px", "Venue"} & other.keys(), {"Price"} - other.keys()
    if contract == "freeze":
        error = json.loads(found.stdout)["error"]
        assert (found.exit_code, error["exit_code"]) == (1, 1)
        assert "the contract of the stream is freeze" in error["what"] and "/feed/2" in error["where"]
        assert all(name in str(error) for name in (*unknown, *([] if unknown else absent)))
        assert open_table(tmp_path / "db", "F.T").count() == 0
        return
    assert found.exit_code == 0
    result = json.loads(found.stdout)
    if contract == "discard-row":
        reason = "unknown-field" if unknown else "absent-field"
        assert [code for code, _ in quarantined(tmp_path)] == [reason]
        assert (stored(tmp_path), result["ignored"], result["absent"]) == ([("A", 1.5)] * 2, {}, {})
        return
    assert stored_unsorted(tmp_path)[2] == (other["Sym"], other.get("Price"))
    assert (result["ignored"], result["absent"]) == (dict.fromkeys(unknown, 1), dict.fromkeys(absent, 1))
    assert ("fields without a column" in found.stderr) == (contract == "evolve" and bool(unknown))
    assert ("no field for columns" in found.stderr) == (contract == "evolve" and bool(absent))


def test_rows_that_a_contract_has_discarded_are_requeued_by_another_one(tmp_path: Path) -> None:
    for form in FORMS:
        base = tmp_path / form
        base.mkdir()
        write(base, form, columns='contract = { columns = "discard-row" }')
        put(base, "1", [MORE, MORE], form)
        assert ingest(base).exit_code == 0 and len(quarantined(base)) == 2
        assert run(base / "db", "quarantine", "requeue", "F.T", "s").exit_code == 1
        write(base, form, columns='ignore = ["Venue"]\ncontract = { columns = "discard-row" }')
        assert run(base / "db", "quarantine", "requeue", "F.T", "s").exit_code == 0
        assert stored(base) == [("C", 3.5)] * 2


def test_a_null_is_a_field_and_an_ignored_one_is_known(tmp_path: Path) -> None:
    write(tmp_path, columns='ignore = ["Venue"]\ncontract = { columns = "freeze" }')
    put(tmp_path, "1", [{**MORE, "Price": None}, WHOLE])
    assert ingest(tmp_path).exit_code == 0
    assert stored_unsorted(tmp_path) == [("C", None), ("A", 1.5)]


def test_one_row_in_many_is_found(tmp_path: Path) -> None:
    write(tmp_path, columns='contract = { columns = "discard-row" }')
    rows: list[Row] = [WHOLE] * 5000
    rows[1234], rows[4321] = MORE, RENAMED
    put(tmp_path, "1", rows)
    assert ingest(tmp_path).exit_code == 0
    assert quarantined(tmp_path) == [("unknown-field", None), ("unknown-field", None)]
    assert open_table(tmp_path / "db", "F.T").count() == 4998


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("top", 'contract = { columns = "freeze" }'),
        ("columns", 'contract = { columns = "freeze" }'),
        ("top", '[contract]\ncolumns = "freeze"'),
    ],
)
def test_a_contract_stands_at_the_top_or_among_the_columns(tmp_path: Path, place: str, text: str) -> None:
    write(tmp_path, **{place: text})
    put(tmp_path, "1", [MORE])
    assert ingest(tmp_path).exit_code == 1


@pytest.mark.parametrize(
    ("columns", "top", "words"),
    [
        ('contract = { columns = "frozen" }', "", ["contract.columns", "evolve", "'freeze'?"]),
        ('contract = { columns = "freeze" }', 'contract = { columns = "freeze" }', ["given twice"]),
        ('required = "yes"', "", ["required"]),
        ("Price = { required = 1 }", "", ["columns.Price.required", "true or false"]),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, columns: str, top: str, words: list[str]) -> None:
    write(tmp_path, columns=columns, top=top)
    (tmp_path / "feed").mkdir()
    found = ingest(tmp_path)
    assert found.exit_code == 2 and all(word in found.stderr for word in words), found.stderr


# --- counters --------------------------------------------------------------------------------------------------


def test_a_renamed_field_is_told_by_run_dry_run_doctor_stats_and_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    file = write(tmp_path)
    put(tmp_path, "1", [WHOLE] * 2)
    assert ingest(tmp_path).exit_code == 0
    quiet = run(tmp_path / "db", "doctor", file, "--all")
    assert "the newest rows have the fields of the columns, and no others" in quiet.output
    put(tmp_path, "2", [RENAMED] * 3)
    _, plan = run_json(tmp_path / "db", "ingest", file, "--dry-run")
    assert (plan["sample"]["ignored"], plan["sample"]["absent"]) == ({"Px": 3}, {"Price": 3})
    planned = run(tmp_path / "db", "ingest", file, "--dry-run")
    assert "fields without a column: Px (3 rows)" in planned.output
    assert "no field for columns: Price (3 rows)" in planned.output
    assert (
        "no field for columns: Price (3 rows)" in run(tmp_path / "db", "doctor", file).output
    )  # before it is ingested
    said = ingest(tmp_path)
    assert "no field for columns: Price (3 rows)" in said.stderr
    rows = [row for row in rows_of(tmp_path / "db", INGEST) if row["Outcome"] == "committed"]
    assert [(row["UnknownFields"], row["AbsentFields"]) for row in rows] == [(0, 0), (3, 3)]
    told = run(tmp_path / "db", "doctor")
    assert told.exit_code == 1
    assert "no row of epoch 2 has the field of column Price. Rows had it up to epoch 1" in told.output
    assert "epoch 2 has fields without a column, Px (3 rows)" in told.output
    _, figures = run_json(tmp_path / "db", "stats", "F.T")
    assert (figures["streams"][0]["ignored"], figures["streams"][0]["absent"]) == ({"Px": 3}, {"Price": 3})
    calm = run(tmp_path / "db", "doctor", write(tmp_path, columns='contract = { columns = "discard-value" }'))
    assert "Price" not in calm.output


@pytest.mark.parametrize("renamed", [False, True])
def test_a_column_that_is_younger_than_the_rows_has_lost_no_field(tmp_path: Path, renamed: bool) -> None:
    write(tmp_path)
    put(tmp_path, "1", [WHOLE])
    assert ingest(tmp_path).exit_code == 0
    added = '<Column name="Price" dataType="double"/><Column name="Venue" dataType="String"/>'
    schema = SCHEMA.replace('<Column name="Price" dataType="double"/>', added)
    (tmp_path / "F.T.schema").write_text(schema.replace("Price", "Cost") if renamed else schema)
    if renamed:
        words = "schema", "deploy", tmp_path / "F.T.schema", "--rename", "Price=Cost"
        assert run(tmp_path / "db", *words).exit_code == 0
    put(tmp_path, "2", [WHOLE])
    assert ingest(tmp_path).exit_code == 0
    told = run(tmp_path / "db", "doctor")
    assert "1 of 1 row of epoch 2 have no field for column Venue" in told.output
    gone = "no row of epoch 2 has the field of column Cost. Rows had it up to epoch 1"
    assert (gone in told.output, told.exit_code) == (renamed, int(renamed)), told.output


def test_rows_that_were_undone_have_lost_no_field(tmp_path: Path) -> None:
    write(tmp_path)
    for name, row in (("1", WHOLE), ("2", RENAMED)):
        put(tmp_path, name, [row])
        assert ingest(tmp_path).exit_code == 0
    told = run(tmp_path / "db", "doctor")
    assert told.exit_code == 1 and "no row of epoch 2 has the field of column Price" in told.output
    assert run(tmp_path / "db", "epochs", "undo", "F.T", "s", "--epoch", "2").exit_code == 0
    told = run(tmp_path / "db", "doctor", "--all")
    assert told.exit_code == 0, told.output
    assert "the newest rows have the fields of the columns, and no others" in told.output


def test_a_frozen_contract_is_told_before_a_run(tmp_path: Path) -> None:
    file = write(tmp_path, columns='contract = { columns = "freeze" }')
    put(tmp_path, "1", [WHOLE])
    assert ingest(tmp_path).exit_code == 0
    put(tmp_path, "2", [MORE])
    planned = run(tmp_path / "db", "ingest", file, "--dry-run")
    assert planned.exit_code == 1 and "Venue" in planned.stderr
    told = run(tmp_path / "db", "doctor", file)
    assert told.exit_code == 1 and "a run would stop" in told.output


TABLES = """name = "s"
contract = { columns = "discard-row" }
[feed]
type = "files"
path = "feed/*"
settle = "0 s"
[[tables]]
table = "F.T"
schema = "F.T.schema"
where = { column = "kind", equals = "T" }
partition = { internal = { fixed = "0" }, value = { fixed = "2026-11-20" } }
[[tables]]
table = "F.U"
schema = "F.U.schema"
else = true
contract = { columns = "evolve" }
partition = { internal = { fixed = "0" }, value = { fixed = "2026-11-20" } }
[bad_rows]
max_fraction = 1.0
"""


def test_each_table_of_a_feed_has_its_contract(tmp_path: Path) -> None:
    (tmp_path / "F.T.schema").write_text(SCHEMA)
    (tmp_path / "F.U.schema").write_text(SCHEMA.replace('name="T"', 'name="U"').replace("Price", "Bid"))
    (tmp_path / "s.toml").write_text(TABLES)
    bid = {"kind": "U", "Sym": "D", "Bid": 1.0, "Ask": 2.0}
    put(tmp_path, "1", [{"kind": "T", **WHOLE}, {"kind": "T", **MORE}, bid])
    assert ingest(tmp_path).exit_code == 0
    assert (stored(tmp_path), quarantined(tmp_path)) == ([("A", 1.5)], [("unknown-field", None)])
    assert open_table(tmp_path / "db", "F.U").count() == 1
    (tmp_path / "s.toml").write_text(TABLES.replace("discard-row", "evolve"))
    assert run(tmp_path / "db", "quarantine", "requeue", "F.T", "s").exit_code == 0
    assert stored(tmp_path) == [("A", 1.5), ("C", 3.5)]
