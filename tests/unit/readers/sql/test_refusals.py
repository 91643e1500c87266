"""What a query cannot do, and tables that it cannot name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import sparkhaven
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from tests.support.tables.small_tables import SCHEMA, SmallTable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("select * from read_csv('{file}')", SettingsError, "reaches beyond the tables"),
        ("select * from read_text('{file}')", SettingsError, "reaches beyond the tables"),
        ("select * from glob('/etc/*')", SettingsError, "reaches beyond the tables"),
        ("select * from parquet_scan('{file}')", SettingsError, "reaches beyond the tables"),
        ("select (select count(*) from query('from read_blob(''{file}'')'))", SettingsError, "reaches beyond"),
        ("select * from '{file}'", TableNotFoundError, "no table"),
        ("select * from small", TableNotFoundError, "no table small"),
        ("select * from duckdb_secrets()", SettingsError, "reaches beyond the tables"),
        ("select * from enable_logging()", SettingsError, "reaches beyond the tables. It calls enable_logging"),
        ("select * from NS.T, duckdb_settings()", SettingsError, "reaches beyond the tables"),
        ("select (select count(*) from DuckDB_Settings())", SettingsError, "character 30 of"),
        ("select * from duckdb_tables() union all from duckdb_views()", SettingsError, "reaches beyond the tables"),
        ("with x as (from pragma_database_size()) from x", SettingsError, "pragma_database_size"),
        ("select * from which_secret('s3://a', 's3')", SettingsError, "reaches beyond the tables"),
        ("select * from query_table('NS.T')", SettingsError, "calls query_table"),
        ("select * from arrow_scan(1, 2, 3)", SettingsError, "calls arrow_scan"),
        ("select * from json_execute_serialized_sql(json_serialize_sql('select 1'))", SettingsError, "reaches beyond"),
        ("select * from checkpoint()", SettingsError, "calls checkpoint"),
        ("select current_setting('memory_limit')", SettingsError, "character 8 of"),
        ("select 'threads'.current_setting()", SettingsError, "calls current_setting"),
        ("select system.main.Current_Setting('TimeZone') from NS.T", SettingsError, "calls current_setting"),
        ("select list_transform(['threads'], x -> current_setting(x))", SettingsError, "calls current_setting"),
        ("select 1 from NS.T where Sym = getvariable('x')", SettingsError, "calls getvariable"),
        ("select max(Size) filter (current_setting('threads') > 0) from NS.T", SettingsError, "current_setting"),
        ("select pg_get_viewdef(1)", SettingsError, "calls pg_get_viewdef"),
        ("select 1 order by current_setting('threads')", SettingsError, "calls current_setting"),
        ("copy (select 1) to '{file}'", SettingsError, "not a single SELECT"),
        ("attach '{file}' as x", SettingsError, "not a single SELECT"),
        ("install httpfs", SettingsError, "not a single SELECT"),
        ("load httpfs", SettingsError, "not a single SELECT"),
        ("pragma database_list", SettingsError, "not a single SELECT"),
        ("set enable_external_access = true", SettingsError, "not a single SELECT"),
        ("create table x as select 1", SettingsError, "not a single SELECT"),
        ("drop view NS.T", SettingsError, "not a single SELECT"),
        ("insert into NS.T select * from NS.T", SettingsError, "not a single SELECT"),
        ("explain select 1", SettingsError, "not a single SELECT"),
        ("show tables", SettingsError, "not a single SELECT"),
        ("select 1; select 2", SettingsError, "not a single SELECT"),
        ("", SettingsError, "not a single SELECT"),
        ("select from where", SettingsError, "cannot be parsed"),
        ("select Sizes from NS.T", SettingsError, "Sizes"),
        ("select Sym::int from NS.T", SettingsError, "Could not convert"),
    ],
)
def test_what_a_query_cannot_do(kept: SmallTable, tmp_path: Path, query: str, error: Any, words: str) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a\n1\n")
    with pytest.raises(error, match=words) as caught:
        sparkhaven.sql(kept.root, query.replace("{file}", str(file)))
    assert caught.value.exit_code == 2 and caught.value.hint
    assert file.read_text() == "a\n1\n"


def test_table_functions_of_values_are_there(kept: SmallTable) -> None:
    query = (
        "select t.Size, r.range, u.u from NS.T t, range(2) r, unnest([t.Size, -1]) u(u), generate_series(1, 1),"
        " json_each('[1]') where Size = 17 order by 2, 3"
    )
    assert [tuple(row.values()) for row in sparkhaven.sql(kept.root, query).to_pylist()] == [
        (17, 0, -1),
        (17, 0, 17),
        (17, 1, -1),
        (17, 1, 17),
    ]


def _quoted(name: str) -> str:
    """Each step of a path by itself: a name in quotes is one step."""
    return name if name.startswith('"') else ".".join(f'"{step}"' for step in name.split("."))


@pytest.mark.parametrize("name", ["NS.t", "ns.T", "T", "NS.Tt", "memory.NS.T", '"NS.T"', "information_schema.tables"])
def test_an_unknown_table_is_reported_with_near_names(kept: SmallTable, name: str) -> None:
    with pytest.raises(TableNotFoundError, match="no table") as caught:
        sparkhaven.sql(kept.root, f"select * from {name}")
    assert caught.value.expected == "one of NS.T"
    assert caught.value.where == f"character 15 of: select * from {name}"
    assert caught.value.found == (name if name.count(".") == 1 and '"' not in name else _quoted(name))


def test_names_that_sql_cannot_distinguish_are_reported(tmp_path: Path) -> None:
    for namespace, name in (("NS", "T"), ("NS", "t"), ("temp", "T")):
        schemas, aside = tmp_path / "Schemas", tmp_path / "aside"  # an earlier release made tables of such names
        if schemas.exists():
            schemas.rename(aside)
        SmallTable(tmp_path, SCHEMA.replace('"NS"', f'"{namespace}"').replace('name="T"', f'name="{name}"'))
        for path in aside.glob("*"):
            path.rename(schemas / path.name)
        shutil.rmtree(aside, ignore_errors=True)
    assert sparkhaven.sql(tmp_path, "select * from NS.t").num_rows == 0
    with pytest.raises(SettingsError, match="differ in case only"):
        sparkhaven.sql(tmp_path, "select * from NS.t, NS.T")
    with pytest.raises(SettingsError, match="the name of one of DuckDB"):
        sparkhaven.sql(tmp_path, "select * from temp.T")
