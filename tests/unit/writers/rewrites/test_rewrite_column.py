"""Columns of history are rewritten: rows of every reader, proof, later merges, and what the schema must have first."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, Layout, LocationKey, TableName
from sparkhaven.store.merges.merge_records import MergeRecord, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_result import MergeOutcome
from tests.support.commands import run, run_json
from tests.support.streams.schema_site import DAY, TABLE, Site

XML = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${{autobalance_by_first_grouping_column}}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="A" dataType="long"/>
<Column name="G" dataType="String" columnType="Grouping"/><Column name="P" dataType="{P}"/>
{more}<DataIndex columns="P"/></Table>
"""
FORMATS = pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])


class Corrected(Site):
    """A site whose rows are kept beside it."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.kept: list[dict[str, Any]] = []

    def declare(self, more: str = "", price: str = "double") -> None:
        self.write(XML.format(P=price, more=more))

    def batch(self, *prices: float | None, **more: Any) -> None:
        first = len(self.kept)
        rows = [{"A": first + n, "G": "xyz"[n % 3], "P": price, **more} for n, price in enumerate(prices)]
        self.kept += rows
        (self.base / "s" / f"{first:06}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.ingest()

    @property
    def place(self) -> TablePlace:
        return TablePlace(Fs(), Layout(self.root), TableName.parse(TABLE))

    def record(self) -> MergeRecord:
        record = newest(self.place, DAY)
        assert record is not None
        return record

    def rewrite(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.do("rewrite-column", TABLE, "--dates", DAY, "--local", *words, code=code)

    def error(self, *words: str, code: int = 2) -> dict[str, Any]:
        found = run(self.root, "rewrite-column", TABLE, "--dates", DAY, "--local", *words)
        assert found.exit_code == code, found.stderr
        return {"text": found.stderr}

    def set(self, name: str, fn: Callable[[dict[str, Any]], Any]) -> None:
        """The same in the rows that are kept."""
        self.kept = [{**row, name: fn(row)} for row in self.kept]

    def check(self) -> None:
        names = list(self.kept[0])
        table = open_table(self.root, TABLE)
        for _ in range(2):
            found = sorted(table.to_arrow(names).to_pylist(), key=lambda row: row["A"])
            assert repr(found) == repr(self.kept)
        for price in {row["P"] for row in self.kept if row["P"] is not None}:
            expected = [row["A"] for row in self.kept if row["P"] == price]
            assert sorted(table.to_arrow(["A"], where=f"P = {price}")["A"].to_pylist()) == expected
        verified = run(self.root, "verify", TABLE, "--deep")
        assert verified.exit_code == 0, verified.stdout

    def end_of_day(self) -> None:
        for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
            self.do(words[0], TABLE, "--date", DAY, *words[1:])


@pytest.fixture
def site(tmp_path: Path) -> Corrected:
    site = Corrected(tmp_path)
    site.declare()
    site.stream()
    for part in ("0", "1"):
        assert run(site.root, "partitions", "add", "Test", part).exit_code == 0
    site.batch(1.5, None, 2.5, 4.0, 4.0)
    return site


@FORMATS
def test_a_corrected_date_is_read_validated_truncated_and_deleted(site: Corrected, form: str) -> None:
    site.merge("--format", form)
    before = site.record()
    planned = site.rewrite("--set", "P=CASE WHEN G = 'x' THEN P * 2 ELSE P END", "--dry-run")
    assert (planned["outcome"], planned["rows"], planned["generation"]) == ("planned", 5, 2)
    assert planned["columns"]["P"]["changed"] == 2 and site.record() == before
    done = site.rewrite("--set", "P=CASE WHEN G = 'x' THEN P * 2 ELSE P END")
    assert (done["outcome"], done["rows"], done["generation"]) == ("rewritten", 5, 2)
    assert done["columns"]["P"] == {"value": "CASE WHEN G = 'x' THEN P * 2 ELSE P END", "changed": 2, "nulls": 1}
    assert done["format"] == form
    site.set("P", lambda row: row["P"] * 2 if row["G"] == "x" else row["P"])
    site.check()
    after = site.record()
    assert before.proof is not None and after.proof is not None
    digests = before.proof.digests_out, after.proof.digests_out
    assert {name for name in digests[0] if digests[0][name] == digests[1][name]} == {"A", "G"}
    code, total = run_json(site.root, "sql", "SELECT sum(P) AS p, count(*) AS n FROM Test.Event")
    assert (code, total["first"]) == (0, [{"p": sum(row["P"] or 0 for row in site.kept), "n": 5}])
    if form != "deephaven":
        files = [str(site.place.history_location(LocationKey(o.internal, DAY)) / PARQUET) for o in after.outputs]
        assert duckdb.read_parquet(files).sum("P").fetchall() == [(total["first"][0]["p"],)]
    site.end_of_day()
    site.check()


@FORMATS
def test_what_is_corrected_can_be_what_rows_are_grouped_by(site: Corrected, form: str) -> None:
    site.merge("--format", form, "--sort", "A:desc")
    site.rewrite(
        "--set", "G=CASE WHEN A % 2 = 0 THEN 'even' ELSE upper(G) END", "--set", "P=if(P is null, 0.5, A * 1.0)"
    )
    site.set("P", lambda row: 0.5 if row["P"] is None else float(row["A"]))
    site.set("G", lambda row: "even" if row["A"] % 2 == 0 else row["G"].upper())
    site.check()
    site.end_of_day()
    site.check()


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_later_merges_keep_the_correction(site: Corrected, form: str) -> None:
    site.merge("--format", form)
    site.rewrite("--set", "P=P + 1")
    site.set("P", lambda row: None if row["P"] is None else row["P"] + 1)
    site.batch(9.0, 9.5)
    site.check()
    site.merge()
    assert site.record().run.supplements == 1
    site.check()
    site.do("validate", TABLE, "--date", DAY)
    site.merge("--rewrite")
    record = site.record()
    assert record.source == "history" and [c.changed for c in record.corrections] == [4]
    site.check()
    site.rewrite("--set", "P=P * 10")
    site.set("P", lambda row: None if row["P"] is None else row["P"] * 10)
    site.check()
    site.batch(3.0)
    assert run(site.root, "truncate", TABLE, "--date", DAY).exit_code != 0
    site.merge("--rewrite")
    site.end_of_day()
    site.check()


def test_corrections_are_discarded_by_name_while_intraday_has_the_rows(site: Corrected) -> None:
    site.merge()
    site.rewrite("--set", "P=0.5")
    plain = list(site.kept)
    site.set("P", lambda row: 0.5)
    site.check()
    site.merge("--discard-corrections")
    site.kept = plain
    assert site.record().corrections == () and site.record().source == "intraday"
    site.check()
    site.rewrite("--set", "P=0.5")
    site.set("P", lambda row: 0.5)
    site.end_of_day()
    refused = run(site.root, "merge", TABLE, "--date", DAY, "--discard-corrections", "--local")
    assert refused.exit_code == 1 and "rows that only history has" in refused.stderr
    site.check()


def test_the_same_rewrite_is_done_once(site: Corrected) -> None:
    site.merge()
    words = "--set", "P=P * 2"
    assert site.rewrite(*words)["outcome"] == "rewritten"
    assert site.rewrite(*words)["outcome"] == "nothing"
    site.set("P", lambda row: None if row["P"] is None else row["P"] * 2)
    site.check()
    site.batch(8.0)
    site.merge()
    assert "rewritten by this expression before" in site.error(*words, code=1)["text"]
    site.check()
    assert site.rewrite(*words, "--again")["outcome"] == "rewritten"
    site.set("P", lambda row: None if row["P"] is None else row["P"] * 2)
    site.check()


def test_a_column_that_is_not_deployed_is_refused_with_the_command(site: Corrected) -> None:
    site.merge()
    before = site.record()
    for words, told in (
        (["--add", "Q"], "schema deploy FILE"),
        (["--set", "Q=1"], "schema deploy FILE"),
        (["--drop", "P"], "schema deploy FILE --drop P"),
        (["--rename", "P=Price"], "schema deploy FILE --rename P=Price"),
        (["--retype", "P=long"], "schema deploy FILE"),
        (["--set", "Date='x'"], "partitioning column"),
        (["--set", "P=Q"], "character 1 of: Q"),
        ([], "at least one of"),
        (["--set", "P"], "COL=EXPR"),
        (["--set", "P=1", "--lossy", "A"], "--lossy"),
    ):
        text = site.error(*words)["text"]
        assert told in text.replace("\n", " "), text
    assert site.record() == before


@FORMATS
def test_old_dates_are_brought_to_the_deployed_schema(site: Corrected, form: str) -> None:
    more = '<Column name="Q" dataType="int"/><Column name="T" dataType="String"/>'
    site.declare(more)
    site.deploy()
    site.batch(7.0, 8.0, Q=3, T="t")
    site.merge("--format", form)
    site.declare('<Column name="Quantity" dataType="long"/><Column name="S" dataType="String"/>')
    site.deploy("--rename", "Q=Quantity", "--drop", "T")
    changes = ["--rename", "Q=Quantity", "--retype", "Quantity=long", "--drop", "T", "--add", "S"]
    done = site.rewrite(*changes)
    assert done["outcome"] == "rewritten" and done["columns_dropped"] == {"T": 2}
    assert site.rewrite(*changes)["outcome"] == "nothing"
    names = {name for output in site.record().outputs for name in output.digests}
    assert names == {"A", "G", "P", "Quantity", "S"}
    assert site.rewrite("--retype", "Quantity=long", "--add", "S")["outcome"] == "nothing"
    rows = [{"Quantity": row.get("Q"), "S": None} for row in site.kept]
    site.kept = [{name: row[name] for name in "AGP"} | more for row, more in zip(site.kept, rows, strict=True)]
    site.check()
    site.end_of_day()
    site.check()


def test_a_column_that_was_emptied_and_dropped_keeps_no_date_from_truncation(site: Corrected) -> None:
    site.declare('<Column name="Q" dataType="int"/>')
    site.deploy()
    site.batch(7.0, 8.0, Q=3)
    site.merge()
    site.rewrite("--set", "Q=null")
    site.declare()
    site.deploy("--drop", "Q")
    site.rewrite("--drop", "Q")
    site.kept = [{name: row[name] for name in "AGP"} for row in site.kept]
    site.end_of_day()
    site.check()


def test_a_value_that_the_column_does_not_hold_leaves_the_date_as_it_is(site: Corrected) -> None:
    site.declare('<Column name="Q" dataType="byte"/><Column name="F" dataType="float"/>')
    site.deploy()
    site.merge()
    before = site.record()
    assert "row 0" in site.error("--set", "Q=A + 200")["text"]
    assert "exactly" in site.error("--set", "Q=A / 2")["text"]
    assert site.record() == before
    site.rewrite("--set", "P=P + 0.1")
    assert "--lossy F" in site.error("--set", "F=P")["text"]
    assert site.rewrite("--set", "F=P", "--lossy", "F")["columns"]["F"]["nulls"] == 1
    assert not list(site.root.rglob(".computed"))


def test_a_date_without_history_is_refused(site: Corrected) -> None:
    assert "merge" in site.error("--set", "P=1.0")["text"]


def test_rules_of_duplicates_stay_and_left_out_rows_stay_out(site: Corrected) -> None:
    site.batch(4.0, 4.0)
    site.merge("--dedupe", "P")
    site.rewrite("--set", "P=P * 2")
    record = site.record()
    assert record.proof is not None and record.proof.dropped == 3 and record.run.dedupe is not None
    site.do("validate", TABLE, "--date", DAY)
    site.batch(8.0, 5.0)  # the first is the double of a corrected row
    site.merge()
    found = open_table(site.root, TABLE).to_arrow(["P"])["P"].to_pylist()
    assert sorted(found, key=repr) == sorted([3.0, None, 5.0, 8.0], key=repr)
    site.end_of_day()


def _adding(more: float) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda rows: pc.add(rows["P"], more)


def test_functions_over_record_batches_compute_columns(site: Corrected) -> None:
    import sparkhaven

    site.merge()
    seen: list[list[str]] = []

    def doubled(rows: pa.RecordBatch) -> pa.Array:
        seen.append(rows.schema.names)
        return pa.array([None if price is None else price * 2 for price in rows["P"].to_pylist()])

    table = sparkhaven.Database(site.root).table(TABLE)
    (done,) = table.rewrite_columns(DAY, set={"P": doubled, "G": "upper(G)"}, inputs=["P"])
    assert (done.date, done.rows_out, done.generation) == (DAY, 5, 2)
    assert {column.name: column.changed for column in done.corrections} == {"P": 4, "G": 5}
    assert seen == [["P"]] * len(seen)
    site.set("P", lambda row: None if row["P"] is None else row["P"] * 2)
    site.set("G", lambda row: row["G"].upper())
    site.check()
    with pytest.raises(sparkhaven.errors.MergeError, match="may have been rewritten by this function"):
        table.rewrite_columns(DAY, set={"P": doubled, "G": "upper(G)"}, inputs=["P"])  # it uses a list
    for more in (0.0, 0.0, 1.0):  # the second call is the first one again, the third has other code to run
        (done,) = table.rewrite_columns([DAY], set={"P": _adding(more)})
    assert (done.outcome is MergeOutcome.NOTHING, done.generation) == (False, 4)
    site.set("P", lambda row: None if row["P"] is None else row["P"] + 1)
    site.check()
    with pytest.raises(sparkhaven.errors.SchemaMismatchError, match="gives no column"):
        table.rewrite_columns([DAY], set={"P": lambda rows: pa.array([1.0])})
    with pytest.raises(sparkhaven.errors.SettingsError):
        table.rewrite_columns("2026-01-0x", set={"P": "1"})
    site.check()


def _times(rows: pa.RecordBatch, by: float) -> pa.Array:
    return pc.multiply(rows["P"], by)


def test_functions_that_are_given_other_values_are_others(site: Corrected) -> None:
    import sparkhaven

    site.merge()
    table = sparkhaven.Database(site.root).table(TABLE)
    done = [table.rewrite_columns(DAY, set={"P": partial(_times, by=by)})[0].outcome for by in (2.0, 2.0, 4.0)]
    assert done == [MergeOutcome.REWRITTEN, MergeOutcome.NOTHING, MergeOutcome.REWRITTEN]
    site.set("P", lambda row: None if row["P"] is None else row["P"] * 8)
    site.check()
    with pytest.raises(sparkhaven.errors.MergeError, match="rewritten by this function before"):
        table.rewrite_columns(DAY, set={"P": partial(_times, by=2.0)})
    site.check()


def test_an_expression_means_the_columns_of_now(site: Corrected) -> None:
    site.declare('<Column name="Q" dataType="double"/>')
    site.deploy()
    site.merge()
    words = "--set", "Q=2"
    assert site.rewrite(*words)["outcome"] == "rewritten"
    assert site.rewrite(*words)["outcome"] == "nothing"
    site.declare('<Column name="Old" dataType="double"/><Column name="Q" dataType="double"/>')
    site.deploy("--rename", "Q=Old")
    assert site.rewrite(*words)["outcome"] == "rewritten"
    site.kept = [{**row, "Old": 2.0, "Q": 2.0} for row in site.kept]
    site.check()
    site.declare('<Column name="Old" dataType="double"/>')
    site.deploy("--drop", "Q")
    site.declare('<Column name="Old" dataType="double"/><Column name="Q" dataType="int"/>')
    site.deploy()
    assert site.rewrite(*words)["outcome"] == "rewritten"
    site.set("Q", lambda row: 2)
    site.check()


def test_a_corrected_date_is_copied_moved_inspected_and_compared(site: Corrected, tmp_path: Path) -> None:
    site.merge()
    site.rewrite("--set", "P=P + 1")
    site.set("P", lambda row: None if row["P"] is None else row["P"] + 1)
    (path,) = site.root.rglob("2.json")
    code, told = run_json(site.root, "inspect", str(path))
    assert code == 0 and [c["changed"] for c in told["facts"]["corrections"]] == [4], told
    site.end_of_day()
    site.do("snapshot", "--out", str(tmp_path / "copy"))
    site.do("restore", str(tmp_path / "copy"), "--root", str(tmp_path / "other"))
    assert run(site.root, "compare", str(tmp_path / "other")).exit_code == 0
    assert run(site.root, "dates", "move", TABLE, "--dates", DAY, "--to", "1").exit_code == 0
    assert [c.changed for c in site.record().corrections] == [4]
    site.do("validate", TABLE, "--date", DAY)
    site.check()


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_a_date_without_rows_stays_an_empty_location(site: Corrected, form: str) -> None:
    day = "2026-11-23"
    site.merge("--format", form)
    assert (
        run(
            site.root, "merge", TABLE, "--dates", f"{DAY}..{day}", "--fill-missing", "--local", "--format", form
        ).exit_code
        == 0
    )
    done = site.do("rewrite-column", TABLE, "--dates", day, "--local", "--set", "P=P * 2")
    assert (done["outcome"], done["rows"]) == ("nothing", 0), done
    record = newest(site.place, day)
    assert record is not None and [output.rows for output in record.outputs] == [0, 0]
    site.check()
