"""Every ordinary file operation on history: what readers, checks, `metadata`, `dates adopt` and a merge make of it."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.format.table import table_size
from tests.support.commands import run, run_json
from tests.support.moves.operations import (
    BOTH,
    DAY,
    NEXT,
    OPERATIONS,
    TABLE,
    Operation,
    Spot,
    copied_date_to_other_root,
    database,
)
from tests.support.moves.page import PAGE, page

pytestmark = pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return database(tmp_path_factory.mktemp("moves"))


ALL = "2024-01-01..2024-12-31"


def shown(root: Path) -> list[int | None]:
    values = open_table(root, TABLE).to_arrow(columns=["X"])["X"].to_pylist()
    return sorted(values, key=lambda value: (value is not None, value))


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.name)
def test_a_file_operation_is_understood_by_everyone(original: Path, tmp_path: Path, row: Operation) -> None:
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root = row.do(Spot(tmp_path / "db", tmp_path / "other"))
    read = run(root, "read", TABLE)
    assert read.exit_code == row.read, read.output
    for words in filter(None, row.told.split("|")):
        assert words in read.stderr
    if not row.told:
        assert not read.stderr
    if row.rows is not None:
        assert shown(root) == row.rows
        code, counted = run_json(root, "sql", f"SELECT count(*) AS n FROM {TABLE}")
        assert (code, counted["first"]) == (0, [{"n": len(row.rows)}])
    checked = run(root, "verify", TABLE)
    assert checked.exit_code == row.verify, checked.output
    validated = run(root, "metadata", "validate", TABLE)
    assert validated.exit_code == row.validate, validated.output
    updated = run(root, "metadata", "update", TABLE)
    assert updated.exit_code == row.update, updated.output
    checked = run(root, "verify", TABLE, "--deep")
    assert checked.exit_code == row.verify_updated, checked.output
    assert (row.rows is None) or shown(root) == row.rows
    adopted = run(root, "dates", "adopt", TABLE, "--accept-loss")
    assert adopted.exit_code == row.adopt, adopted.output
    if row.rows is None:
        return
    assert run(root, "read", TABLE).stderr == ""
    assert shown(root) == row.rows
    for check in (("verify", TABLE, "--deep"), ("metadata", "validate", TABLE), ("doctor",)):
        found = run(root, *check)
        assert found.exit_code == 0, found.output


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.rows], ids=lambda row: row.name)
def test_commands_take_what_stands_as_their_input(original: Path, tmp_path: Path, row: Operation) -> None:
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root = row.do(Spot(tmp_path / "db", tmp_path / "other"))
    days = sorted(set(open_table(root, TABLE).to_arrow(columns=["Date"])["Date"].to_pylist()))
    merged = run(root, "merge", TABLE, "--dates", ",".join(days), "--rewrite", "--local")
    gone = ("were removed by hand" in row.told and DAY in days) or None in (row.rows or ())
    assert merged.exit_code == (1 if gone else 0), merged.output
    assert shown(root) == row.rows
    if gone and days == [DAY]:
        return
    for words in (("validate", TABLE, "--dates", days[0]), ("dates", "drop", TABLE, "--dates", days[0])):
        done = run(root, *words)
        assert done.exit_code == 0, done.output
    assert days[0] not in open_table(root, TABLE).to_arrow(columns=["Date"])["Date"].to_pylist()


def dated(root: Path) -> list[tuple[str, int | None]]:
    rows = open_table(root, TABLE).to_arrow(columns=["Date", "X"])
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=str)


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.rows is not None], ids=lambda row: row.name)
def test_exports_and_comparisons_take_what_stands(original: Path, tmp_path: Path, row: Operation) -> None:
    """The exported files have the rows that a read gives; a comparison says what the values say."""
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root, tree = row.do(Spot(tmp_path / "db", tmp_path / "root")), tmp_path / "tree"
    exported = run(root, "export", TABLE, "--out", tree)
    assert exported.exit_code == (0 if row.rows else 2), exported.output
    for words in filter(None, row.told.split("|")):
        assert words in exported.stderr
    if row.rows:
        values = pq.read_table(tree, partitioning="hive", columns=["Date", "X"])
        assert sorted(zip(*(column.to_pylist() for column in values.columns), strict=True), key=str) == dated(root)
    same = dated(root) == dated(original)
    for how in ([], ["--whole-rows"]):
        code, compared = run_json(root, "compare", original, *how)
        assert (code, compared["equal"]) == (0 if same else 1, same), compared


def test_history_without_a_record_that_has_changed_is_exported_and_compared_anew(
    original: Path, tmp_path: Path
) -> None:
    """The files have the sizes of before, and nothing has their checksums."""
    root, tree = copied_date_to_other_root(Spot(original, tmp_path / "root")), tmp_path / "tree"
    size = Spot(root).location / "table.size"
    size.write_bytes(table_size.encode(replace(table_size.decode(size.read_bytes(), size), checksums={})))
    other = tmp_path / "same"
    shutil.copytree(root, other, symlinks=True)
    assert run(root, "export", TABLE, "--out", tree).exit_code == 0
    assert run_json(root, "compare", other)[1]["equal"]
    column = Spot(root).location / "X.dat"
    data = bytearray(column.read_bytes())
    data[-4:] = struct.pack("<i", 33)
    column.write_bytes(data)
    assert shown(root) == [1, 2, 33]
    assert run(root, "export", TABLE, "--out", tree).exit_code == 2  # another export is there
    assert run(root, "export", TABLE, "--out", tree, "--replace").exit_code == 0
    assert sorted(pq.read_table(tree)["X"].to_pylist()) == [1, 2, 33]
    code, compared = run_json(root, "compare", other)
    assert (code, compared["equal"]) == (1, False)


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.rows], ids=lambda row: row.name)
def test_rows_are_deleted_and_columns_rewritten_wherever_they_stand(
    original: Path, tmp_path: Path, row: Operation
) -> None:
    """A deletion leaves no row that matches, or refuses and names what to type first."""
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root = row.do(Spot(tmp_path / "db", tmp_path / "other"))
    assert row.rows is not None
    deleted = run(root, "delete-rows", TABLE, "--where", "X >= 2")
    if deleted.exit_code:
        assert f" dates adopt {TABLE} --dates" in deleted.output
        assert shown(root) == row.rows
        assert run(root, "dates", "adopt", TABLE, "--accept-loss").exit_code == row.adopt
        deleted = run(root, "delete-rows", TABLE, "--where", "X >= 2")
    assert deleted.exit_code == 0, deleted.output
    left = [value for value in row.rows if value is None or value < 2]
    assert shown(root) == left
    if set(left) - {None}:
        rewritten = run(root, "rewrite-column", TABLE, "--dates", ALL, "--set", "X=X + 10", "--local")
        assert rewritten.exit_code == 0, rewritten.output
        assert shown(root) == [value if value is None else value + 10 for value in left]


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.effect == "moved"], ids=lambda row: row.name)
def test_a_storage_partition_may_be_left_empty_by_moves(original: Path, tmp_path: Path, row: Operation) -> None:
    """All its dates are found elsewhere: its volume is not missing, and merges write to it again."""
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root, spot = tmp_path / "db", Spot(tmp_path / "db")
    shutil.rmtree(Spot(root, day=NEXT).date)
    assert run(root, "dates", "adopt", TABLE, "--accept-loss").exit_code == 0
    row.do(spot)
    assert run(root, "partitions", "add", "NS", "0").exit_code == 0
    assert shown(root) == [1, 2, 3]
    merged = run(root, "merge", TABLE, "--dates", DAY, "--rewrite", "--local")
    assert merged.exit_code == 0, merged.output
    assert shown(root) == [1, 2, 3]


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.operation == "moved" and row.effect == "moved"])
def test_rows_count_once_beside_a_replaced_location_with_the_same_files(
    original: Path, tmp_path: Path, row: Operation
) -> None:
    """A rewrite that changes nothing leaves them for an hour."""
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root = tmp_path / "db"
    assert run(root, "merge", TABLE, "--dates", DAY, "--rewrite", "--local").exit_code == 0
    row.do(Spot(root, internal="0.g2"))
    assert shown(root) == BOTH
    assert run(root, "dates", "adopt", TABLE).exit_code == 0
    assert shown(root) == BOTH
    assert run(root, "verify", TABLE, "--deep").exit_code == 0


def test_a_location_is_read_in_a_storage_partition_of_merges(tmp_path: Path) -> None:
    """Also where a merge might have written to it, and did not."""
    root = database(tmp_path, "0", "1")
    (standing,) = root.glob(f"Systems/NS/Partitions/*/{DAY}/T")
    free = {"0", "1"} - {standing.parents[1].name}
    shutil.copytree(standing, standing.parents[2] / free.pop() / DAY / "T")
    read = run(root, "read", TABLE)
    assert "no merge record vouches for" in read.output
    assert shown(root) == [1, 1, 2, 2, 3, 3, 4, 5]


def test_all_dates_that_stand_are_rewritten(original: Path, tmp_path: Path) -> None:
    row = next(row for row in OPERATIONS if row.rows == [1, 1, 2, 2, 3, 3, 4, 5] or "date, copy" in row.name)
    shutil.copytree(original, tmp_path / "db", symlinks=True)
    root = row.do(Spot(tmp_path / "db", tmp_path / "other"))
    rewritten = run(root, "rewrite-column", TABLE, "--dates", ALL, "--set", "X=X + 10", "--local")
    assert rewritten.exit_code == 0, rewritten.output
    assert row.rows is not None and shown(root) == [value + 10 for value in row.rows if value is not None]


def test_the_page_has_every_row() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
