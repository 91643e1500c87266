"""Who reads what ``save_table`` wrote, or another program; and what damage to it is found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven import open_table, save_table, sql
from sparkhaven.jobs.cli.reading.stats import list_tables
from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    InvalidNameError,
    SettingsError,
    TableExistsError,
    TableNotFoundError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.support.tables.small_tables import SmallTable

ROWS = pa.table({"Day": ["a", "b", "a"], "N": pa.array([1, 2, None], pa.int64())})


def place_of(root: Path, fs: Fs | None = None) -> TablePlace:
    return TablePlace(fs or Fs(), Layout(root), TableName("me", "T"))


def numbers(root: Path, where: str | None = None) -> list[int | None]:
    listed: list[int | None] = open_table(root, "me.T").to_arrow("N", where=where)["N"].to_pylist()
    return listed


def test_a_name_of_both_kinds_is_refused_and_names_both(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1]})
    small.log().close()
    with pytest.raises(TableExistsError, match="is a system table"):
        save_table(tmp_path, "NS.T", ROWS)
    save_table(tmp_path, "NS.Other", ROWS)
    definitions = tmp_path / "Users/NS/Definitions"
    (definitions / "Other.tbl").rename(definitions / "T.tbl")
    with pytest.raises(InvalidNameError, match="names two tables") as raised:
        open_table(tmp_path, "NS.T")
    assert "Schemas/NS.T.schema" in str(raised.value)
    assert "Users/NS/Definitions/T.tbl" in str(raised.value)


def test_no_stream_makes_a_table_by_the_name_of_a_user_table(tmp_path: Path) -> None:
    """It could not be read then, nor could the other."""
    save_table(tmp_path, "NS.T", ROWS)
    for _ in range(2):
        with pytest.raises(TableExistsError, match=r"NS\.T is a user table"):
            SmallTable(tmp_path)
    assert open_table(tmp_path, "NS.T").to_arrow().num_rows == 3


def test_no_command_makes_a_name_that_differs_in_case_only(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    for name in ("me.t", "Me.T", "ME.t"):
        with pytest.raises(InvalidNameError, match=r"and me\.T differ in case only"):
            save_table(tmp_path, name, ROWS)
    for mode in ("append", "replace"):
        save_table(tmp_path, "me.T", ROWS, mode=mode)
    SmallTable(tmp_path / "other").log().close()
    with pytest.raises(InvalidNameError, match=r"and NS\.T differ in case only"):
        save_table(tmp_path / "other", "ns.T", ROWS)
    save_table(tmp_path, "ns.T", ROWS)
    with pytest.raises(InvalidNameError, match=r"NS\.T and ns\.T differ in case only"):
        SmallTable(tmp_path)


def test_a_user_table_has_no_epochs(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    with pytest.raises(SettingsError, match="no epochs"):
        open_table(tmp_path, "me.T", epoch=1)
    with pytest.raises(SettingsError, match="no epochs"):
        open_table(tmp_path, "me.T", as_of="2026-01-01")


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_sql_and_the_list_of_tables_know_user_tables(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    result = sql(tmp_path, "select Day, sum(N) as n from me.T group by Day order by Day")
    assert result.to_pylist() == [{"Day": "a", "n": 1}, {"Day": "b", "n": 2}]
    assert list_tables(Fs(), Layout(tmp_path)) == [
        {
            "table": "me.T",
            "rows": 3,
            "dates": 2 if by else 0,
            "first": "a" if by else None,
            "last": "b" if by else None,
            "epochs": {},
        }
    ]
    with pytest.raises(TableNotFoundError, match=r"did you mean me\.T|me\.T"):
        open_table(tmp_path, "me.t")


@pytest.mark.parametrize("name", ["N.dat", "Day.sym.bytes", "table.size", "table.tbl"])
def test_damage_is_found(tmp_path: Path, name: str) -> None:
    save_table(tmp_path, "me.T", ROWS)
    path = tmp_path / "Users/me/Tables/T" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError):
        open_table(tmp_path, "me.T").to_arrow()
    path.unlink()
    with pytest.raises(CorruptFileError):
        open_table(tmp_path, "me.T").to_arrow()
    save_table(tmp_path, "me.T", ROWS)
    assert numbers(tmp_path) == [1, 2, None]


def test_damage_of_the_record_is_found(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by="Day")
    path = tmp_path / "Users/me/Definitions/.T.locations"
    data = path.read_bytes()
    for at in (0, 7, 20, len(data) - 1):
        path.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        with pytest.raises(CorruptFileError):
            open_table(tmp_path, "me.T")
    path.write_bytes(data)
    assert open_table(tmp_path, "me.T").count() == 3


def test_a_table_of_another_program_is_read_and_extended(tmp_path: Path) -> None:
    """One without our record: what its ``table.size`` publishes counts."""
    save_table(tmp_path, "me.T", ROWS, partition_by="Day")
    (tmp_path / "Users/me/Definitions/.T.locations").unlink()
    assert sorted(numbers(tmp_path), key=str) == [1, 2, None]
    save_table(tmp_path, "me.T", ROWS, mode="append")
    assert len(numbers(tmp_path)) == 6
    save_table(tmp_path, "me.T", ROWS, partition_by="Day")
    assert sorted(numbers(tmp_path), key=str) == [1, 2, None]
