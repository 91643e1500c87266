"""Changes of a schema through the command line: refused at a start, done by command, and what readers and a night keep.

Each change meets each moment, each reader and a whole night of merge, validate, truncate and delete.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from sparkhaven.jobs.monitor.logs.log_tables import ADMIN
from sparkhaven.jobs.streams.stream import SchemaWatch
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import newest, store_record
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Version, encode_history
from tests.support.commands import run
from tests.support.streams.log_rows import rows_of
from tests.support.streams.schema_site import COLUMNS, DAY, TABLE, Site, schema
from tests.support.tables.live_tables import Engine


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    made = Site(tmp_path)
    made.stream()
    return made


def begun(site: Site) -> Site:
    site.put({"A": 1, "B": "x", "C": 0.5})
    site.ingest()
    return site


WITHOUT_B = {"A": "long", "C": "double"}
RENAMED = {"A": "long", "N": "String", "C": "double"}
REFUSED = {
    "drop": (schema(WITHOUT_B), "drops B", ["--drop", "B"]),
    "rename": (schema(RENAMED), "drops B", ["--rename", "B=N"]),
    "reorder": (schema({"B": "String", "A": "long", "C": "double"}), "changes the order of columns", []),
    "kind": (schema(B=' columnType="Grouping"'), "changes B from normal to grouping", []),
    "formula": (schema(extra='<Partitions keyFormula="${autobalance_single}"/>'), "changes keyFormula", []),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", REFUSED)
def test_a_start_refuses_what_is_no_addition_and_a_command_does_it(site: Site, change: str) -> None:
    text, found, words = REFUSED[change]
    begun(site)
    site.write(text)
    before = site.rows()
    said = site.ingest(code=2)
    assert f"found: {found}\n" in said and f" schema deploy {site.file}" in said
    if change in ("drop", "rename"):
        assert "columns: B (1 row with values)" in said
    looks = (
        run(site.root, "ingest", str(site.base / "s.toml"), "--dry-run"),
        run(site.root, "schema", "check", str(site.file), "--against", str(site.root)),
    )
    for look in looks:
        assert look.exit_code == 2 and f"found: {found}\n" in look.stderr
    looked = run(site.root, "doctor", TABLE, str(site.base / "s.toml"))
    assert looked.exit_code == 1 and "drops or changes columns" in looked.stdout and found in looked.stdout
    assert site.rows() == before and site.do("schema", "history", TABLE)["version"] == 1
    if words:
        assert site.deploy(code=2)["error"]["type"] == "SchemaChangeError"
    assert site.deploy(*words, "--dry-run")["version"] == 2
    assert site.do("schema", "history", TABLE)["version"] == 1
    done = site.deploy(*words)
    assert (done["version"], done["deployed"]) == (2, True)
    if change == "drop":
        again = site.deploy(*words)
        assert (again["version"], again["deployed"]) == (2, False)
    site.put({"A": 2, "B": "y", "N": "y", "C": 1.5})
    site.ingest()
    assert [row["A"] for row in site.rows()] == [1, 2]
    assert run(site.root, "verify", "--deep").exit_code == 0


@pytest.mark.slow
def test_an_older_file_is_named_by_its_version(site: Site) -> None:
    begun(site)
    old = site.base / "old" / "Test.Event.schema"
    old.parent.mkdir()
    old.write_text(schema())
    site.write(schema({**COLUMNS, "D": "long"}))
    site.ingest()
    site.stream("t", old)
    said = site.ingest(name="t", code=2)
    assert "found: version 1, an older one, which drops D" in said and "deployed version 2" in said
    assert [row["D"] for row in site.rows()] == [None]


@pytest.mark.slow
def test_a_column_that_is_dropped_stays_readable_by_name_until_a_merge_that_says_so(site: Site) -> None:
    begun(site)
    site.write(schema(WITHOUT_B))
    done = site.deploy("--drop", "B")
    assert done["dropped"] == ["B"]
    site.put({"A": 2, "C": 1.5})
    said = site.ingest()
    assert "no row of this batch" not in said
    assert site.rows() == [{"Date": DAY, "A": 1, "C": 0.5}, {"Date": DAY, "A": 2, "C": 1.5}]
    assert site.rows("A", "B") == [{"A": 1, "B": "x"}, {"A": 2, "B": None}]
    assert site.do("read", TABLE, "--where", "B = 'x'", "--columns", "A")["rows"] == 1
    for words in (["--dry-run"], []):
        merged = run(site.root, "merge", TABLE, "--date", DAY, "--local", *words)
        assert "without B (1 row with values)" in merged.stdout
    record = newest(TablePlace(Fs(), Layout(site.root), TableName.parse(TABLE)), DAY)
    assert record is not None
    (drop,) = record.column_drops
    assert (drop.id, drop.name, drop.rows) == (2, "B", 1)
    results = {r["rule"]: r for r in site.do("validate", TABLE, "--date", DAY)["rules"]}
    assert results["ColumnKept"]["passed"] and "1 dropped by command" in results["ColumnKept"]["message"]
    site.write(schema())
    site.deploy("--restore", "1")  # and back, while the files are there
    site.merge("--rewrite")
    site.night()
    assert [row["B"] for row in site.rows()] == ["x", None]


@pytest.mark.slow
@pytest.mark.parametrize("merged", [False, True])
def test_a_rename_keeps_every_value_in_every_reader_and_through_a_night(site: Site, merged: bool) -> None:
    begun(site)
    if merged:
        site.merge("--format", "parquet")
    site.write(schema(RENAMED))
    assert site.deploy("--rename", "B=N")["renamed"] == {"B": "N"}
    for number in (2, 3):  # into the open location, whose files keep their name, and into a new one
        site.stream(f"s{number}")
        name = "s" if number == 2 else "s3"
        site.put({"A": number, "N": "y", "C": 1.5}, name)
        site.ingest(name=name)

    def check() -> None:
        assert [row["N"] for row in site.rows()] == ["x", "y", "y"]
        table = open_table(site.root, TABLE)
        assert table.to_arrow(["A"], where="N = 'x'")["A"].to_pylist() == [1]
        assert table.to_arrow(["A"], where="N != 'x'")["A"].to_pylist() == [2, 3]
        assert table.count(where="N is null") == 0
        found = site.do("sql", f"SELECT N, count(*) AS n FROM {TABLE} GROUP BY N ORDER BY N")
        assert found["first"] == [{"N": "x", "n": 1}, {"N": "y", "n": 2}]

    check()
    if not merged:  # other programs read the files of the open location by its definition
        names = [
            c.name
            for c in decode_tbl(
                (site.root / "Intraday/Test/Event/s" / DAY / "Event/table.tbl").read_bytes(), ""
            ).columns
        ]
        assert "B" in names and "N" not in names
    site.night()
    check()
    site.write(schema())
    site.deploy("--rename", "N=B")
    assert [row["B"] for row in site.rows()] == ["x", "y", "y"]
    assert run(site.root, "validate", TABLE, "--date", DAY).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "parquet"])
@pytest.mark.parametrize("change", ["drop", "rename", "add"])
def test_a_table_that_was_opened_before_shows_its_columns_or_says_why_not(site: Site, change: str, form: str) -> None:
    begun(site)
    opened = open_table(site.root, TABLE)
    site.write(schema({"drop": WITHOUT_B, "rename": RENAMED, "add": {**COLUMNS, "D": "long"}}[change]))
    site.deploy(*{"drop": ["--drop", "B"], "rename": ["--rename", "B=N"], "add": []}[change])
    assert opened.to_arrow(["A", "B"]).to_pylist() == [{"A": 1, "B": "x"}]
    site.merge("--format", form)
    assert opened.to_arrow(["A"]).to_pylist() == [{"A": 1}]
    moved = r"schema has changed since the table was opened. Column B"
    if change == "rename":  # the column of then is another one's name now
        with pytest.raises(SnapshotMovedError, match=moved):
            opened.to_arrow(["A", "B"])
        return
    assert opened.to_arrow(["A", "B"]).to_pylist() == [{"A": 1, "B": "x"}]
    for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
        site.do(words[0], TABLE, "--date", DAY, *words[1:])
    if change == "add":
        assert opened.to_arrow(["A", "B"]).to_pylist() == [{"A": 1, "B": "x"}]
        return
    with pytest.raises(SnapshotMovedError):
        opened.to_arrow(["A", "B"])


@pytest.mark.slow
def test_what_nobody_dropped_is_not_lost_at_night(site: Site) -> None:
    begun(site)
    layout, name = Layout(site.root), TableName.parse(TABLE)
    retire(layout, name)
    for words in (["merge", TABLE, "--date", DAY, "--local"],):
        found = run(site.root, *words)
        assert found.exit_code == 1
        assert "columns that the deployed schema lacks and that no command dropped" in found.stderr
        assert "B (1 row with values)" in found.stderr
    assert site.rows("B") == [{"B": "x"}]
    assert "no command dropped B" in run(site.root, "doctor", TABLE).stdout
    gone = site.do("schema", "history", TABLE)["retired"]
    assert gone == [{"column": "B", "id": 2, "version": 1, "dropped": False}]
    site.write(schema())
    site.do("schema", "deploy", str(site.file), "--restore", "1")
    site.night()
    assert [row["B"] for row in site.rows()] == ["x"]


@pytest.mark.slow
def test_a_column_that_was_retired_by_nobody_can_be_dropped_by_name(site: Site) -> None:
    begun(site)
    retire(Layout(site.root), TableName.parse(TABLE))
    assert site.do("schema", "deploy", TABLE, "--drop", "B")["version"] == 3
    site.night()
    assert site.rows() == [{"Date": DAY, "A": 1, "C": 0.5}]


@pytest.mark.slow
def test_a_merge_that_lost_a_column_is_no_proof(site: Site) -> None:
    """As an earlier release merged: the record has no word of the column."""
    begun(site)
    layout, name = Layout(site.root), TableName.parse(TABLE)
    site.write(schema(WITHOUT_B))
    site.deploy("--drop", "B")
    site.merge()
    record = newest(TablePlace(Fs(), layout, name), DAY)
    assert record is not None
    store_record(TablePlace(Fs(), layout, name), replace(record, column_drops=()))
    found = run(site.root, "validate", TABLE, "--date", DAY)
    assert found.exit_code == 1 and "ColumnKept" in found.stdout + found.stderr
    found = run(site.root, "truncate", TABLE, "--date", DAY)
    assert found.exit_code == 1 and "history lacks columns that intraday has" in found.stderr
    assert site.rows("A") == [{"A": 1}] and list(site.root.rglob("Event/B.dat"))


@pytest.mark.slow
@pytest.mark.parametrize("truncated", [False, True])
def test_values_of_a_new_column_that_came_after_the_merge_are_not_lost(site: Site, truncated: bool) -> None:
    """They wait for the next merge, which ``LaterRows`` says. The merged rows have none of them."""
    begun(site)
    site.merge()
    if truncated:
        site.do("validate", TABLE, "--date", DAY)
        site.do("truncate", TABLE, "--date", DAY)
    site.write(schema({**COLUMNS, "D": "long"}))
    site.put({"A": 2, "B": "y", "C": 1.5, "D": 7})
    site.ingest()
    results = {r["rule"]: r["passed"] for r in site.do("validate", TABLE, "--date", DAY)["rules"]}
    assert "ColumnKept" not in results and results["LaterRows"]
    site.night()
    assert [row["D"] for row in site.rows()] == [None, 7]


@pytest.mark.slow
def test_the_schema_is_accepted_at_a_start_and_both_are_in_the_log(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    begun(site)
    site.write(schema(WITHOUT_B))
    said = site.ingest("--accept-schema")
    assert "schema version 2 is deployed: drops B" in said
    site.do("schema", "deploy", TABLE, "--restore", "1")
    rows = [row for row in rows_of(site.root, ADMIN) if row["TableName"] == "Event"]
    found = [(row["Command"], row["Affected"], row["Outcome"], row["DryRun"], row["Message"]) for row in rows]
    assert found == [
        ("ingest", 4, "done", False, "version 1: adds Date, A, B, C"),
        ("ingest", 1, "done", False, "version 2: drops B"),
        ("schema deploy", 1, "done", False, "version 3: brings back B"),
    ]
    assert rows[-1]["Arguments"] == f"{TABLE} --restore 1 --json" and rows[-1]["User"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "double", "String"])
def test_another_type_is_refused_and_its_advice_can_be_followed(site: Site, kind: str) -> None:
    begun(site)
    site.write(schema({**COLUMNS, "A": kind}))
    said = site.ingest(code=2)
    assert "E161" in said and "--drop A" in said
    assert site.do("schema", "check", str(site.file), "--against", str(site.root), code=2)["error"]["code"] == "E161"
    site.write(schema({"A2": kind, "B": "String", "C": "double"}))
    site.deploy("--drop", "A")
    site.put({"A2": 7, "B": "y"} if kind != "String" else {"A2": "7", "B": "y"})
    site.ingest()
    site.night()
    assert len(site.rows()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["free", "used again"])
def test_a_rename_that_is_done_is_done_when_it_is_said_again(site: Site, again: bool) -> None:
    """As after a kill behind the last step: the file is the deployed one. ``again``: the old name has a new column."""
    begun(site)
    site.write(schema({"A": "long", "N": "String", **({"B": "int"} if again else {}), "C": "double"}))
    first = site.deploy("--rename", "B=N")
    assert (first["renamed"], first["version"]) == ({"B": "N"}, 2)
    rows = site.rows()
    second = site.deploy("--rename", "B=N")
    assert (second["renamed"], second["version"]) == ({}, 2)
    assert site.rows() == rows
    assert "renames nothing" in str(site.deploy("--rename", "Nope=N", code=2)["error"])


@pytest.mark.slow
def test_words_that_do_nothing_are_refused(site: Site) -> None:
    begun(site)
    assert "the file has it still" in str(site.deploy("--drop", "B", code=2)["error"])
    assert "no such column" in str(site.deploy("--drop", "Nope", code=2)["error"])
    assert "renames nothing" in str(site.deploy("--rename", "B=N", code=2)["error"])
    assert "is not a pair of names" in str(site.deploy("--rename", "BN", code=2)["error"])
    assert "has no version 7" in str(site.do("schema", "deploy", TABLE, "--restore", "7", code=2)["error"])


@pytest.mark.parametrize(("kind", "value"), [("String", "new"), ("int", 7)])
def test_a_new_column_takes_the_old_name_of_a_renamed_one(site: Site, kind: str, value: object) -> None:
    """In a location that was begun before, files of the renamed column have the name."""
    begun(site)
    before = site.rows("A", "B", "C")
    site.write(schema({**RENAMED, "B": kind}))
    site.deploy("--rename", "B=N")
    wanted = [{"A": row["A"], "N": row["B"], "B": None} for row in before]
    assert site.rows("A", "N", "B") == wanted
    site.put({"A": 9, "N": "n", "B": value, "C": 0.5})
    site.ingest()
    assert site.rows("A", "N", "B") == [*wanted, {"A": 9, "N": "n", "B": value}]


def test_two_files_are_compared(site: Site) -> None:
    other = site.base / "other.schema"
    other.write_text(schema({"A": "int", "C": "double", "D": "long"}))
    found = site.do("schema", "diff", str(site.file), str(other), code=1)
    assert (found["added"], found["dropped"]) == (["D"], ["B"])
    assert found["retyped"] == ["A from long to int, fixed"]


def retire(layout: Layout, name: TableName) -> None:
    """Deploys a schema without B as an earlier release did at a start: no command dropped it."""
    text = schema(WITHOUT_B).encode()
    history = load_history(TablePlace(Fs(), layout, name))
    columns = tuple(column for column in history[-1].columns if column.name != "B")
    history.append(Version(2, sha256(text).hexdigest(), columns))
    layout.schema_history(name).write_bytes(encode_history(history))
    layout.schema(name).write_bytes(text)


@pytest.mark.slow
def test_a_stream_that_runs_on_an_older_schema_says_so(site: Site) -> None:
    begun(site)
    place = TablePlace(Fs(), Layout(site.root), TableName.parse(TABLE))
    watch = SchemaWatch(place, load_deployed(place))
    assert watch.news() is None
    site.write(schema({**COLUMNS, "D": "long"}))
    site.stream("t")
    site.put({"A": 2, "D": 4}, "t")
    site.ingest(name="t")
    said = watch.news()
    assert said == (
        "schema version 2 is deployed (adds D). This stream writes version 1 until it starts again with that schema"
    )
    assert watch.news() is None
    streams = {line["stream"]: line.get("schemaBehind") for line in site.do("stats", TABLE)["streams"]}
    assert streams == {"s": {"writes": 1, "deployed": 2}, "t": None}
    assert "s writes schema version 1. Deployed is 2." in run(site.root, "stats", TABLE).stdout
    site.night()  # rows of both versions
    assert [row["D"] for row in site.rows()] == [None, 4]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["drop", "rename", "add"])
def test_an_engine_is_served_the_deployed_columns(site: Site, change: str) -> None:
    begun(site)
    columns = {"drop": WITHOUT_B, "rename": RENAMED, "add": {**COLUMNS, "D": "long"}}[change]
    site.write(schema(columns))
    site.deploy(*{"drop": ["--drop", "B"], "rename": ["--rename", "B=N"], "add": []}[change])
    attached = Engine(site.root).attach("Test_Event")
    row = {name: attached.column(name)[0] for name in columns}
    written = {"A": 1, "B": "x", "N": "x", "C": 0.5, "D": None}
    assert row == {name: written[name] for name in columns}
