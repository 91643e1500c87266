"""Two roots with the same rows, or nearly: what `compare` says, and how little it reads."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.compare import compare_tables
from sparkhaven.store.digest import value_hashes
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.merge_records import newest, store_record
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run, run_json
from tests.support.streams.schema_site import Site, schema
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers import coded_rows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, make, merge

NAME = str(TABLE)


def compared(one: Path, other: Path, *words: str) -> dict[str, Any]:
    code, result = run_json(one, "compare", str(other), *words)
    assert code == (0 if result["equal"] else 1)
    return result


def rows_in(root: Path, rows: list[dict[str, Any]], source: str = "a") -> IntradayRows:
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({(source, DAY): as_table(rows)})
    db.log.close()
    return db


def some(number: int, seed: int = 3) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [random_row(rng) | {"L": row} for row in range(number)]


def test_equal_files_of_intraday_are_not_read(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(tmp_path / name, 60)[0].log.close()
    for path in (tmp_path / "two" / "Intraday").rglob("*.dat"):
        path.unlink()  # the records are all that is needed
    result = compared(tmp_path / "one", tmp_path / "two", NAME)
    assert (result["equal"], result["rows_read"], result["differences"]) == (True, 0, [])
    (date,) = result["dates"]
    assert (date["date"], date["rows"], date["other_rows"]) == (DAY, 60, 60)
    assert date["sources"].keys() == {"a", "b"}


def test_history_is_compared_by_merge_records_across_formats_and_partitions(tmp_path: Path) -> None:
    for name, partitions, merge_format in (("one", 2, "DeephavenV1"), ("two", 3, "Parquet")):
        db, _ = make(tmp_path / name, 90, partitions=partitions)
        db.log.close()
        merge(db.layout, format=merge_format)
        for path in (tmp_path / name / "Systems" / "Test" / "Partitions").rglob("*"):
            if path.suffix in (".dat", ".sym", ".bytes", ".parquet"):
                path.unlink()
    result = compared(tmp_path / "one", tmp_path / "two")
    assert (result["equal"], result["rows_read"]) == (True, 0)
    assert all(result["dates"][0]["columns"].values())


def test_a_merged_root_is_equal_to_one_that_is_not(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(tmp_path / name, 90)[0].log.close()
    merge(IntradayRows(tmp_path / "two", SCHEMA, fs=FS).layout)
    result = compared(tmp_path / "one", tmp_path / "two")
    assert (result["equal"], result["rows_read"]) == (True, 90)


def test_order_and_sources_may_differ(tmp_path: Path) -> None:
    rows = some(50)
    rows_in(tmp_path / "one", rows)
    rows_in(tmp_path / "two", rows[::-1], "other")
    assert compared(tmp_path / "one", tmp_path / "two")["equal"]


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_differ_are_named(tmp_path: Path, merged: bool) -> None:
    rows = some(50)
    changed = [*rows[:20], rows[20] | {"I": 77, "Venue": "x"}, *rows[21:], rows[4]]
    random.Random(1).shuffle(changed)
    rows_in(tmp_path / "one", rows)
    db = rows_in(tmp_path / "two", changed)
    if merged:
        add_partition(FS, db.layout, "Test", "0")
        merge(db.layout)
    result = compared(tmp_path / "one", tmp_path / "two")
    (date,) = result["dates"]
    assert (date["rows"], date["other_rows"], date["only_here"], date["only_there"]) == (50, 51, 1, 2)
    here = [row for row in result["differences"] if row["side"] == "here"]
    there = [row for row in result["differences"] if row["side"] == "there"]
    assert [(row["source"], row["row"], row["values"]["L"]) for row in here] == [("a", 20, 20)]
    assert {row["values"]["L"] for row in there} == {20, 4}
    assert next(row for row in there if row["values"]["L"] == 20)["values"]["Venue"] == "x"
    text = run(tmp_path / "one", "compare", str(tmp_path / "two")).stdout
    assert "different, 50 rows here, 51 there" in text
    assert "only here: 2024-03-05, source a, row 20" in text


def test_passes_over_a_date_find_the_same(tmp_path: Path) -> None:
    rows = some(50)
    rows_in(tmp_path / "one", rows[1:])
    rows_in(tmp_path / "two", [*rows[:30], *rows[35:], rows[40]])
    one, two = (pinned_of(open_table(tmp_path / name, NAME)) for name in ("one", "two"))
    at_once, passes = compare_tables(one, two), compare_tables(one, two, pass_rows=9)
    assert (at_once.dates, set(map(repr, at_once.differences))) == (passes.dates, set(map(repr, passes.differences)))
    assert (at_once.dates[0].only_here, at_once.dates[0].only_there) == (5, 2)
    assert passes.rows_read > at_once.rows_read


def test_only_columns_that_differ_are_reported(tmp_path: Path) -> None:
    rows = some(30)
    rows_in(tmp_path / "one", rows)
    rows_in(tmp_path / "two", [row | {"D": 5.25} if row["L"] == 7 else row for row in rows])
    (date,) = compared(tmp_path / "one", tmp_path / "two")["dates"]
    assert [name for name, equal in date["columns"].items() if not equal] == ["D"]
    assert date["sources"]["a"] == date["columns"]


def test_named_rows_are_bounded_on_each_side(tmp_path: Path) -> None:
    rows_in(tmp_path / "one", some(40))
    rows_in(tmp_path / "two", [row | {"L": row["L"] + 1000} for row in some(40)])
    result = compared(tmp_path / "one", tmp_path / "two", "--named", "3")
    assert (result["dates"][0]["only_here"], result["dates"][0]["only_there"]) == (40, 40)
    assert [row["side"] for row in result["differences"]] == ["here"] * 3 + ["there"] * 3


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_exchange_values_are_found(tmp_path: Path, merged: bool) -> None:
    rows = [row | {"I": number} for number, row in enumerate(some(20))]
    others = [rows[0] | {"I": 1}, rows[1] | {"I": 0}, *rows[2:]]
    for name, given in (("one", rows), ("two", others)):
        db = rows_in(tmp_path / name, given)
        if merged:
            add_partition(FS, db.layout, "Test", "0")
            merge(db.layout)
    for words in ((), ("--whole-rows",)):
        result = compared(tmp_path / "one", tmp_path / "two", *words)
        assert (result["equal"], len(result["differences"])) == (False, 4)
        assert all(result["dates"][0]["columns"].values()), "by itself each column has the same values"


def test_records_are_not_believed_where_all_rows_are_to_be_read(tmp_path: Path) -> None:
    for name, size in (("one", 5), ("two", 6)):
        db = rows_in(tmp_path / name, [row | {"I": size} for row in some(20)])
        add_partition(FS, db.layout, "Test", "0")
        merge(db.layout)
    places = [TablePlace(FS, Layout(tmp_path / name), TABLE) for name in ("one", "two")]
    one, two = (newest(place, DAY) for place in places)
    assert one is not None and two is not None
    store_record(places[1], replace(two, outputs=(replace(two.outputs[0], row_digest=one.outputs[0].row_digest),)))
    assert compared(tmp_path / "one", tmp_path / "two")["equal"]
    assert not compared(tmp_path / "one", tmp_path / "two", "--whole-rows")["equal"]


def test_roots_without_a_common_column(tmp_path: Path) -> None:
    for name, column, rows in (("one", "A", 3), ("two", "B", 4)):
        schema = (
            SCHEMA[: SCHEMA.index(b'  <Column name="Sym"')]
            + f'<Column name="{column}" dataType="int"/></Table>'.encode()
        )
        db = IntradayRows(tmp_path / name, schema, fs=FS)
        db.commit({("a", DAY): pa.table({column: pa.array(range(rows), pa.int32())})})
        db.log.close()
    for words in ((), ("--whole-rows",)):
        result = compared(tmp_path / "one", tmp_path / "two", *words)
        assert result["columns"] == {"A": "only here", "B": "only there"}
        assert not result["dates"][0]["equal"]


def test_other_ids_and_other_columns(tmp_path: Path) -> None:
    """Ids enter digests: where roots gave a column other ones, its values are read."""
    rows, lines = some(20), SCHEMA.splitlines(keepends=True)
    swapped = b"".join([*lines[:3], *lines[4:6], lines[3], *lines[6:-2], *lines[-1:]])  # Sym later, without T
    rows_in(tmp_path / "one", rows)
    db = IntradayRows(tmp_path / "two", swapped, fs=FS)
    db.commit({("a", DAY): as_table(rows[::-1]).drop_columns(["T"])})
    db.log.close()
    result = compared(tmp_path / "one", tmp_path / "two")
    assert result["columns"] == {"T": "only here"}
    assert all(result["dates"][0]["columns"].values())
    assert run(tmp_path / "one", "compare", str(tmp_path / "two")).exit_code == 1


def test_a_column_that_was_dropped_after_the_merge_is_in_no_digest_of_rows(tmp_path: Path) -> None:
    """The record of the merge has it in its digest of whole rows, that of a merge again has not."""
    without_l = tmp_path / "Test.Every.schema"
    without_l.write_bytes(b"".join(line for line in SCHEMA.splitlines(keepends=True) if b'name="L"' not in line))
    for name in ("one", "two"):
        db, _ = make(tmp_path / name, 30)
        db.log.close()
        merge(db.layout)
        dropped = run(tmp_path / name, "schema", "deploy", without_l, "--drop", "L")
        assert dropped.exit_code == 0, dropped.output
    again = run(tmp_path / "two", "merge", NAME, "--date", DAY, "--local", "--rewrite")
    assert again.exit_code == 0, again.output
    for words in ((), ("--whole-rows",)):
        assert compared(tmp_path / "one", tmp_path / "two", *words)["equal"]
    assert run(tmp_path / "one", "validate", NAME, "--date", DAY).exit_code == 0


CYCLE = ({"A": 1, "B": 2}, {"A": 2, "B": 3}, {"A": 3, "B": 1})  # both columns have the same values
LONGS = {"A": "long", "B": "long"}


def _longs(base: Path, rows: Iterable[dict[str, int]]) -> Site:
    """A root with rows of two columns in intraday."""
    base.mkdir()
    site = Site(base)
    site.write(schema(LONGS))
    site.stream()
    for row in rows:
        site.put(row)
    site.ingest()
    return site


def _rename(site: Site, **names: str) -> None:
    site.write(schema({names.get(name, name): kind for name, kind in LONGS.items()}))
    site.deploy(*(word for old, new in names.items() for word in ("--rename", f"{old}={new}")))


def test_files_of_a_renamed_column_are_compared(tmp_path: Path) -> None:
    others = [row | {"B": row["B"] + 1} for row in CYCLE]
    sites = [_longs(tmp_path / name, rows) for name, rows in (("one", CYCLE), ("two", others), ("three", CYCLE))]
    for site in sites:
        _rename(site, B="C")
    one, two, three = (site.root for site in sites)
    result = compared(one, two)
    assert not result["equal"]
    assert result["dates"][0]["columns"] == {"A": True, "C": False}
    assert compared(one, three)["rows_read"] == 0
    assert compared(one, three)["equal"]


def test_the_same_files_under_exchanged_names_are_other_rows(tmp_path: Path) -> None:
    one, two = (_longs(tmp_path / name, CYCLE) for name in ("one", "two"))
    _rename(one, A="B", B="A")
    assert not compared(one.root, two.root)["equal"]
    three = _longs(tmp_path / "three", ({"A": row["B"], "B": row["A"]} for row in CYCLE))
    assert compared(one.root, three.root)["equal"]


def test_a_wrong_digest_of_a_record_is_not_equal(tmp_path: Path) -> None:
    for name in ("one", "two"):
        db, _ = make(tmp_path / name, 30)
        db.log.close()
        merge(db.layout)
    place = TablePlace(FS, db.layout, TABLE)
    record = newest(place, DAY)
    assert record is not None
    first, *rest = record.outputs
    wrong = replace(first, digests=first.digests | {"I": "0" * 32}, row_digest="0" * 32)
    store_record(place, replace(record, outputs=(wrong, *rest)))
    result = compared(tmp_path / "one", tmp_path / "two")
    assert [name for name, equal in result["dates"][0]["columns"].items() if not equal] == ["I"]


def test_a_table_of_one_root_only(tmp_path: Path) -> None:
    rows_in(tmp_path / "one", some(3))
    (tmp_path / "two").mkdir()
    found = compared(tmp_path / "one", tmp_path / "two")
    assert [defect["code"] for defect in found.pop("findings")] == ["E361"]
    assert found == {"table": NAME, "equal": False, "only": "here"}
    assert run(tmp_path / "one", "compare", str(tmp_path / "two"), "No.Such").exit_code == 2
    assert run(tmp_path / "one", "compare", str(tmp_path / "three")).exit_code == 2


def test_hashes_of_coded_columns_tell_rows_apart(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, coded_rows.SCHEMA, fs=FS)
    rng = random.Random(5)
    rows = [coded_rows.coded_row(rng, number) for number in range(40)]
    db.commit({("a", coded_rows.DAY): coded_rows.coded_table(db.schema, rows)})
    db.log.close()
    table = open_table(tmp_path, str(coded_rows.TABLE)).to_arrow()
    for column in db.schema.columns:
        if column.name == "Date":
            continue
        array = table.column(column.name).combine_chunks()
        hashes = value_hashes(column, array).tolist()
        texts = [repr(value) for value in array.to_pylist()]
        assert len(set(zip(hashes, texts, strict=True))) == len(set(hashes)), column.name
        assert len(set(hashes)) > 1, column.name
