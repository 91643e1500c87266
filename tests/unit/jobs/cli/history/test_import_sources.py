"""``import`` of a tree, a Delta table and a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from tests.support.commands import run
from tests.support.ingest.delta.tables import put_version
from tests.support.writers.import_cases import small
from tests.support.writers.merge_runs import FS

D1, D2 = "2026-11-20", "2026-11-21"
NS_T = TableName("NS", "T")


def told(root: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = run(root, "import", "NS.T", *words, "--json")
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def frame(x: list[int | None], date: str | None = None, **more: list[Any]) -> pa.Table:
    given = {"Date": [date] * len(x)} if date else {}
    return pa.table({**given, "Sym": ["a"] * len(x), "X": pa.array(x, pa.int32()), **more})


def values(root: Path, date: str) -> list[int | None]:
    table = sparkhaven.open_table(root, "NS.T").to_arrow(["X"], dates=date, tier="history")
    return sorted(table["X"].to_pylist(), key=str)


def test_a_tree_is_imported_with_options_of_merges(tmp_path: Path) -> None:
    root = small(tmp_path / "db").root
    for date, x in ((D1, [1, 2]), (D2, [3])):
        (tmp_path / "tree" / f"Date={date}").mkdir(parents=True)
        pq.write_table(frame(x, Other=x), tmp_path / "tree" / f"Date={date}" / "a.parquet")
    tree = str(tmp_path / "tree")
    code, (refused,) = told(root, "--from", tree)
    assert (code, refused["error"]["found"]) == (2, "Other")
    code, planned = told(root, "--from", tree, "--ignore", "Other", "--dry-run")
    looked = [(p["date"], p["outcome"], p["rows_in"]) for p in planned]
    assert (code, looked) == (0, [(D1, "planned", 2), (D2, "planned", 1)])
    code, (one,) = told(root, "--from", tree, "--ignore", "Other", "--dates", D2, "--format", "parquet")
    assert (code, one["outcome"], one["rows_out"], one["format"], one["phase"]) == (
        0,
        "imported",
        1,
        "parquet",
        "clean",
    )
    code, again = told(root, "--from", tree, "--ignore", "Other")
    assert (code, [a["outcome"] for a in again]) == (0, ["imported", "unchanged"])
    assert (values(root, D1), values(root, D2)) == ([1, 2], [3])
    code, (empty,) = told(
        root, "--from", tree, "--ignore", "Other", "--dates", "2026-11-29", "--allow-empty", "--strict"
    )
    assert (code, empty["dates"]) == (1, ["2026-11-29"])


def test_a_tree_of_another_form_is_merged_by_the_options_of_import(tmp_path: Path) -> None:
    root = small(tmp_path / "db").root
    for day, x in ((20, 1), (21, 2)):
        place = tmp_path / "tree" / "year=2026" / "month=11" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(frame([x]), place / "a.parquet")
    words = ["--from", str(tmp_path / "tree"), "--value", "{year}-{month:02}-{day:02}"]
    code, (refused,) = told(root, *words, "--layout", "flat")
    assert (code, refused["error"]["what"].split()[0]) == (2, "--value")
    code, merged = told(root, *words, "--layout", "kv", "--raw-values")
    assert (code, [(m["date"], m["rows_out"]) for m in merged]) == (0, [(D1, 1), (D2, 1)]), merged
    assert (values(root, D1), values(root, D2)) == ([1], [2])
    code, (refused,) = told(root, "--from", "select * from NS.T", "--raw-values")
    assert (code, refused["error"]["found"]) == (2, "a query")
    code, (refused,) = told(root, "--from", str(delta_table(tmp_path / "delta", (D1, frame([1])))), "--value", "{a}")
    assert (code, refused["error"]["found"]) == (2, "a Delta table")


def delta_table(root: Path, *files: tuple[str | None, pa.Table]) -> Path:
    """A Delta table of ``Date`` (its partition column), Sym, X and Note: a version a file."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in
              (("Date", "string"), ("Sym", "string"), ("X", "integer"), ("Note", "string"))]  # fmt: skip
    declared = json.dumps({"type": "struct", "fields": fields})
    made = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": declared}
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**made, "partitionColumns": ["Date"], "configuration": {}, "createdTime": 1}},
    ]
    (root / "_delta_log").mkdir(parents=True)
    for version, (date, rows) in enumerate(files):
        path = root / f"part-{version}.parquet"
        pq.write_table(rows, path)
        size, values = path.stat().st_size, {"Date": date}
        add = {"path": path.name, "partitionValues": values, "size": size, "modificationTime": version + 1}
        put_version(root, version, *(first if not version else []), {"add": {**add, "dataChange": True}})
    return root


def test_a_delta_table_is_merged_with_columns_that_files_lack(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    root, without = layout.root, frame([1, 2]).drop_columns(["X"])
    delta = delta_table(tmp_path / "delta", (D1, without), (D2, frame([3], Note=["n"])))
    code, (refused,) = told(root, "--from", str(delta))
    assert (code, refused["error"]["found"]) == (2, "Note")
    code, done = told(root, "--from", str(delta), "--ignore", "Note")
    assert (code, [(d["date"], d["rows_out"]) for d in done]) == (0, [(D1, 2), (D2, 1)])
    assert (values(root, D1), values(root, D2)) == ([None, None], [3])
    record = newest(TablePlace(FS, layout, NS_T), D1)
    assert record is not None and record.run.imported is not None
    assert (record.run.imported.layout, record.run.imported.root) == ("delta", f"{delta}, version 1")
    again = told(root, "--from", str(delta), "--ignore", "Note")[1]
    assert [d["outcome"] for d in again] == ["unchanged", "unchanged"]
    other = delta_table(tmp_path / "other", (None, frame([3])))
    code, (refused,) = told(root, "--from", str(other))
    assert (code, refused["error"]["what"]) == (2, "rows have no partition value")


def test_files_of_a_delta_table_may_write_names_in_other_case(tmp_path: Path) -> None:
    """As its feed reads them. A name that two columns of a file have but for case is refused."""
    root = small(tmp_path / "db").root
    upper = frame([1, 2]).rename_columns(["SYM", "x"])
    delta = delta_table(tmp_path / "delta", (D1, upper), (D2, frame([3])))
    code, done = told(root, "--from", str(delta), "--ignore", "Note")
    assert (code, [(d["date"], d["rows_out"]) for d in done]) == (0, [(D1, 2), (D2, 1)])
    assert (values(root, D1), values(root, D2)) == ([1, 2], [3])
    twice = delta_table(tmp_path / "twice", (D1, frame([1]).append_column("x", [[2]])))
    code, (refused,) = told(root, "--from", str(twice), "--ignore", "Note")
    assert (code, refused["error"]["what"], refused["error"]["found"]) == (1, "file has a column twice", "X")


def test_files_of_a_delta_table_may_have_the_columns_that_it_is_partitioned_by(tmp_path: Path) -> None:
    """Writers of some table features store them in the files too. The log has the values that count."""
    root = small(tmp_path / "db").root
    delta = tmp_path / "delta"
    delta_table(delta, (D1, frame([1, 2], D1)), (D2, frame([3], D1)))
    log = delta / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"partitionColumns": ["Date"]', '"partitionColumns": ["Date", "Sym"]'))
    for version in (0, 1):
        log = delta / "_delta_log" / f"{version:020}.json"
        log.write_text(log.read_text().replace('"partitionValues": {', '"partitionValues": {"Sym": "log", '))
    code, done = told(root, "--from", str(delta), "--ignore", "Note")
    assert (code, [(d["date"], d["rows_out"]) for d in done]) == (0, [(D1, 2), (D2, 1)]), done
    rows = sparkhaven.open_table(root, "NS.T").to_arrow(["Date", "X", "Sym"], dictionaries=False).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(D1, 1, "log"), (D1, 2, "log"), (D2, 3, "log")]


def test_a_query_is_merged_and_joined(tmp_path: Path) -> None:
    root = small(tmp_path / "db").root
    sparkhaven.merge_frame(frame([1, 2, 3], D1), root, "NS.T")
    query = f"select '{D2}' as Date, Sym, X from NS.T where X < 3"
    assert told(root, "--from", query)[0] == 0
    joined = f"select 'b' as Sym, X from NS.T where Date = '{D1}' and X > 1"
    code, (done,) = told(root, "--from", joined, "--dates", D2, "--upsert", "X")
    counted = [done[name] for name in ("rows_in", "rows_out", "rows_dropped", "rows_identical")]
    assert (code, counted, values(root, D2)) == (0, [4, 3, 1, 0], [1, 2, 3])
    code, (refused,) = told(root, "--from", "select nothing from NS.T")
    assert (code, refused["error"]["type"]) == (2, "SettingsError")
    code, (refused,) = told(root, "--from", str(tmp_path / "none"))
    assert (code, refused["error"]["what"]) == (2, "--from names neither a directory nor a query")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--from", "select 1", "--strict"], "no days are named for --strict"),
        (["--from", "x", "--dates", f"{D1}..20261122", "--strict"], "the range of --strict is not from day to day"),
        (["--from", "select 1 as Sym", "--ignore", "Sym"], "a column of the table cannot be ignored"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, words: list[str], what: str) -> None:
    code, (refused,) = told(small(tmp_path).root, *words)
    assert (code, refused["error"]["what"]) == (2, what)
