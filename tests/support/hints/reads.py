"""Messages of commands that read: names, dates, columns, epochs, queries."""

from __future__ import annotations

import shutil
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa

from sparkhaven import open_table, save_table
from sparkhaven.readers.live.live_column import served_schema
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Version, encode_history
from tests.support.hints.story import ADD, MERGE, REMOVED, Story, Words, told_by
from tests.support.streams.dated_site import Dated
from tests.support.streams.schema_site import COLUMNS, TABLE, schema

TWINS = {"A": "long", "B": "String", "b": "double"}
RENAMED = {"A": "long", "B": "String", "Lower": "double"}
EXTENDED = '  <ExtendedStorage type="coreplus:hive"/>\n'


def of_a_user(site: Dated, name: str = "me.T") -> None:
    save_table(site.root, name, pa.table({"A": [1, 2]}))


def user_rows(site: Dated) -> Words:
    of_a_user(site)
    return "delete-rows", "me.T", "--where", "A > 0"


def duckdb_name(site: Dated) -> Words:
    of_a_user(site, "temp.T")
    return "sql", "SELECT * FROM temp.T"


def twins(site: Dated, extra: str = "") -> None:
    """A table of an earlier release, with two columns whose names differ in case only."""
    text = schema(TWINS, extra).encode()
    (first,) = load_history(site.place)
    columns = tuple(replace(column, name={"C": "b"}.get(column.name, column.name)) for column in first.columns)
    second = Version(2, sha256(text).hexdigest(), columns)
    site.place.schema_history.write_bytes(encode_history([first, second]))
    site.place.schema.write_bytes(text)


def twins_in_sql(site: Dated) -> Words:
    twins(site)
    return "sql", f"SELECT * FROM {TABLE}"


def twins_in_a_tree(site: Dated) -> Words:
    twins(site, EXTENDED)
    return "merge", TABLE, "--dates", "2020-01-02", "--local"


def twins_served(site: Dated) -> str:
    twins(site)
    return told_by(lambda: served_schema(load_deployed(site.place)))


def rename_twin(site: Dated, extra: str = "") -> None:
    site.write(schema(RENAMED, extra))


def rename_in_tree(site: Dated) -> None:
    rename_twin(site, EXTENDED)


def reserved(site: Dated) -> str:
    site.write(schema({**COLUMNS, "class": "long"}))
    site.deploy()
    return told_by(lambda: served_schema(load_deployed(site.place)))


def without_schema(site: Dated) -> Words:
    """History in a root of its own."""
    shutil.rmtree(site.root / "Intraday")
    shutil.rmtree(site.root / "Schemas")
    shutil.rmtree(site.place.merges)
    return "read", TABLE


def history_alone(site: Dated) -> Words:
    """The same, and nobody names the table."""
    without_schema(site)
    return ("verify",)


def opened_before(site: Dated) -> str:
    table = open_table(site.root, TABLE)
    site.write(schema({"A": "long", "N": "String", "C": "double"}))
    site.deploy("--rename", "B=N")
    site.do(*MERGE)
    return told_by(table.to_arrow)


STORIES = {
    "no such table": Story("`sparkhaven tables` lists the tables. A table", ("read", "No.Table")),
    "no such date": Story("`sparkhaven stats 7` lists what is there", ("read", TABLE, "--dates", "2030-01-01")),
    "a malformed date": Story("`sparkhaven stats` lists the dates of a table", ("read", TABLE, "--dates", "2030-1-1")),
    "a name that is none": Story("write it like Nyc13.Flight. `sparkhaven tables`", ("read", "event")),
    "no such column": Story("names are case-sensitive. `sparkhaven schema show", ("read", TABLE, "--columns", "Nope")),
    "no such column in SQL": Story("`sparkhaven schema show 7` lists columns", ("sql", f"SELECT Nope FROM {TABLE}")),
    "no such table in SQL": Story("write namespace and table", ("sql", "SELECT * FROM Nope")),
    "a namespace of DuckDB": Story("`sparkhaven read 7` reads the table", duckdb_name),
    "a query in a condition": Story(
        "`sparkhaven sql QUERY` and sql(…)",
        ("read", TABLE, "--where", "A = (SELECT 1)"),
        fills={"QUERY": f"SELECT * FROM {TABLE}"},
    ),
    "names that differ in case, in SQL": Story(
        ("`sparkhaven read 7` reads the table", "then `sparkhaven schema deploy FILE --rename 7=NEW`"),
        twins_in_sql,
        by_hand=rename_twin,
        fills={"b=NEW": "b=Lower"},
        again=("sql", f"SELECT * FROM {TABLE}"),
    ),
    "names that differ in case, served": Story(
        "`sparkhaven read 7` reads the table", twins_served, by_hand=rename_twin, fills={"b=NEW": "b=Lower"}
    ),
    "names that differ in case, in a tree": Story(
        "`sparkhaven read 7` reads the table",
        twins_in_a_tree,
        (ADD,),
        by_hand=rename_in_tree,
        fills={"b=NEW": "b=Lower"},
        again=("merge", TABLE, "--dates", "2020-01-02", "--local"),
    ),
    "a column that cannot be served": Story("name the other tables, or read this one", reserved),
    "an epoch that is not there yet": Story(
        "`sparkhaven epochs list 7 7` shows the kept ones", ("read", TABLE, "--epoch", "s=99")
    ),
    "an epoch of several streams": Story("lists the streams with their epochs", ("read", TABLE, "--epoch", "1")),
    "an epoch of no stream": Story("lists the streams with their epochs", ("read", TABLE, "--epoch", "nobody=1")),
    "history without a schema": Story("Run `sparkhaven schema deploy FILE`, or copy", without_schema, REMOVED),
    "history without anything else": Story(
        "or move the directory away if it is a stray copy", history_alone, REMOVED, again=("verify",)
    ),
    "rows of a user table": Story("save_table replaces its rows", user_rows),
    "inspection of no file": Story("`sparkhaven verify` checks whole tables", ("inspect", "no-such-file")),
    "a table that was opened before": Story("open the table again, or restart the query", opened_before, (ADD,)),
}
