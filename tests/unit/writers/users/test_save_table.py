"""``save_table``: what becomes of data, of names and of a table that is there; and who reads it."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sparkhaven import open_table, save_table
from sparkhaven.store.errors import (
    InvalidNameError,
    LockLostError,
    SchemaMismatchError,
    SettingsError,
    SnapshotMovedError,
    TableExistsError,
    TableNotFoundError,
    ValidationFailedError,
)
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.users.location_writer import GRACE_S
from sparkhaven.writers.users.save import SaveOptions, save_rows
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import Crash, KillingFs

ROWS = pa.table({"Day": ["a", "b", "a"], "N": pa.array([1, 2, None], pa.int64())})
TYPES: dict[str, tuple[pa.Array, str]] = {
    "Flag": (pa.array([True, None, False]), "java.lang.Boolean"),
    "Tiny": (pa.array([1, None, -127], pa.int8()), "byte"),
    "Little": (pa.array([255, None, 0], pa.uint8()), "short"),
    "Middle": (pa.array([65535, None, 0], pa.uint16()), "int"),
    "Large": (pa.array([2**32 - 1, None, 0], pa.uint32()), "long"),
    "Huge": (pa.array([2**64 - 1, None, 0], pa.uint64()), "java.math.BigInteger"),
    "Px": (pa.array([0.1, None, float("nan")]), "double"),
    "Half": (pa.array([1.5, None, 0.0], pa.float32()), "float"),
    "Text": (pa.array(["é", None, "b"], pa.large_string()), "java.lang.String"),
    "Coded": (pa.array(["x", None, "x"]).dictionary_encode(), "java.lang.String"),
    "At": (pa.array([1, None, -1], pa.timestamp("ms", "Europe/Berlin")), "io.deephaven.db.tables.utils.DBDateTime"),
    "On": (pa.array([date(2024, 2, 29), None, date(1, 1, 1)]), "java.time.LocalDate"),
    "On64": (pa.array([date(2024, 2, 29), None, date(1970, 1, 1)], pa.date64()), "java.time.LocalDate"),
    "Clock": (pa.array([clock_time(1, 2, 3, 4), None, clock_time(0)], pa.time64("us")), "java.time.LocalTime"),
    "Cost": (pa.array([Decimal("1.25"), None, Decimal("-99.99")], pa.decimal128(4, 2)), "java.math.BigDecimal"),
    "Legs": (pa.array([[1.5, None], None, []], pa.list_(pa.float64())), "[D"),
    "Ints": (pa.array([[1], None, []], pa.large_list(pa.int32())), "[I"),
    "Tags": (pa.array([["a", None], None, []], pa.list_(pa.string())), "[Ljava.lang.String;"),
    "Fills": (pa.array([[1, None], None, []], pa.list_(pa.timestamp("us", "UTC"))), "[Ljava.time.Instant;"),
    "Raw": (pa.array([b"ab", None, b""]), "[B"),
    "Id": (pa.array([b"abc", None, b"xyz"], pa.binary(3)), "[B"),
}


def place_of(root: Path, fs: Fs | None = None) -> TablePlace:
    return TablePlace(fs or Fs(), Layout(root), TableName("me", "T"))


def numbers(root: Path, where: str | None = None) -> list[int | None]:
    listed: list[int | None] = open_table(root, "me.T").to_arrow("N", where=where)["N"].to_pylist()
    return listed


class ChangingFs(Fs):
    """A disk that gives back another value of column N than was written, once the files are synced."""

    def sync(self, paths: Iterable[Path], **options: Any) -> None:
        super().sync(written := list(paths), **options)
        for path in written:
            if path.name == "N.dat":
                flip(path, -1)


@pytest.mark.parametrize("mode", ["replace", "append"])
@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_rows_that_the_disk_has_changed_are_not_published(tmp_path: Path, by: str | None, mode: str) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    with pytest.raises(ValidationFailedError, match="the saved rows are not those that were given"):
        save_rows(place_of(tmp_path, ChangingFs()), ROWS.slice(1), SaveOptions(mode, by))
    assert sorted(numbers(tmp_path), key=str) == [1, 2, None]
    assert save_table(tmp_path, "me.T", ROWS, partition_by=by).total == 3


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_every_arrow_type_that_has_an_exact_one_comes_back(tmp_path: Path, by: str | None) -> None:
    data = pa.table({"Day": ["a", "a", "a"], **{name: array for name, (array, _) in TYPES.items()}})
    saved = save_table(tmp_path, "me.T", data, partition_by=by)
    assert (saved.rows, saved.total, saved.save) == (3, 3, 1)
    table = open_table(tmp_path, "me.T", checksum_verify="open").to_arrow(dictionaries=False)
    for name, (array, _) in TYPES.items():
        back = table[name]
        if name == "Px":
            assert str(back.to_pylist()) == str(array.to_pylist())
        elif name == "At":
            assert back.cast(pa.int64()).to_pylist() == [1_000_000, None, -1_000_000]
        elif name == "Fills":
            assert back.cast(pa.list_(pa.int64())).to_pylist() == [[1000, None], None, []]
        elif name == "Huge":
            assert [None if v is None else int(v) for v in back.to_pylist()] == array.to_pylist()
        else:
            assert back.to_pylist() == array.to_pylist(), name
    definition = decode_tbl((tmp_path / "Users/me/Definitions/T.tbl").read_bytes(), "T.tbl")
    assert {c.name: c.data_type for c in definition.columns if c.name != "Day"} == {n: j for n, (_, j) in TYPES.items()}
    assert definition.storage_type == (2 if by else 4)
    assert definition.columns[0].name == "Day"
    assert definition.columns[0].kind == (4 if by else 1)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (pa.timestamp("us"), "zone"),
        (pa.duration("s"), "int64"),
        (pa.struct([("a", pa.int64())]), "field"),
        (pa.list_(pa.timestamp("us")), "elements"),
        (pa.null(), "schema"),
        (pa.decimal128(5, -2), "scale"),
        (pa.month_day_nano_interval(), "another type"),
    ],
)
def test_a_type_without_an_exact_one_is_refused_by_name(tmp_path: Path, kind: pa.DataType, hint: str) -> None:
    data = pa.table({"N": [1], "Odd": pa.nulls(1, kind)})
    with pytest.raises(SchemaMismatchError, match="column Odd") as raised:
        save_table(tmp_path, "me.T", data)
    assert hint in str(raised.value)
    assert str(kind) in str(raised.value)
    assert not (tmp_path / "Users/me/Tables").exists()
    with pytest.raises(TableNotFoundError):
        open_table(tmp_path, "me.T")


def test_a_value_that_is_the_null_of_its_type_is_refused_with_its_row(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    data = pa.table({"Day": ["a"] * 3, "N": pa.array([1, 2, -(2**63)], pa.int64())})
    for mode in ("append", "replace"):
        with pytest.raises(SchemaMismatchError, match="row 2"):
            save_table(tmp_path, "me.T", data, mode=mode)  # type: ignore[arg-type]
        assert numbers(tmp_path) == [1, 2, None]
    assert [path.name for path in (tmp_path / "Users/me/Tables").iterdir()] == ["T"]


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_the_modes(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, mode="append", partition_by=by)
    old = open_table(tmp_path, "me.T")
    save_table(tmp_path, "me.T", ROWS, mode="append", partition_by=by)
    assert old.count() == 3
    assert sorted(numbers(tmp_path), key=str) == [1, 1, 2, 2, None, None]
    with pytest.raises(TableExistsError, match=r"me\.T exists"):
        save_table(tmp_path, "me.T", ROWS, mode="error", partition_by=by)
    other = pa.table({"Day": ["c"], "M": ["x"]})
    saved = save_table(tmp_path, "me.T", other, partition_by=by)
    assert (saved.total, saved.save) == (1, 3)
    assert open_table(tmp_path, "me.T").to_arrow(["Day", "M"], dictionaries=False).to_pylist() == [
        {"Day": "c", "M": "x"}
    ]
    assert sorted(old.to_arrow("N")["N"].to_pylist(), key=str) == [1, 2, None]  # it was opened before
    with pytest.raises(SettingsError, match="unknown mode"):
        save_table(tmp_path, "me.T", ROWS, mode="overwrite")  # type: ignore[arg-type]


def test_columns_of_an_append_are_those_of_the_table_in_any_order(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    save_table(tmp_path, "me.T", ROWS.select(["N", "Day"]), mode="append")
    assert open_table(tmp_path, "me.T").to_arrow("Day")["Day"].to_pylist() == ["a", "b", "a"] * 2
    for data in (ROWS.select(["N"]), ROWS.append_column("More", ROWS["N"]), ROWS.rename_columns(["day", "N"])):
        with pytest.raises(SchemaMismatchError, match="other columns"):
            save_table(tmp_path, "me.T", data, mode="append")
    with pytest.raises(SchemaMismatchError, match="column N has another type"):
        save_table(tmp_path, "me.T", pa.table({"Day": ["a"], "N": [b"x"]}), mode="append")


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_a_table_stays_splayed_or_partitioned(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    with pytest.raises(SettingsError, match=r"stays|other partitions"):
        save_table(tmp_path, "me.T", ROWS, partition_by=None if by else "Day")
    if by is None:
        with pytest.raises(SettingsError, match="other partitions"):
            save_table(tmp_path, "me.T", ROWS, mode="append", partition_by="Day")


def test_partitions_are_directories_and_can_be_chosen(tmp_path: Path) -> None:
    days = pa.table(
        {"On": [date(2024, 1, 2), date(2024, 1, 1), date(2024, 1, 2)], "N": pa.array([1, 2, 3], pa.int64())}
    )
    save_table(tmp_path, "me.T", days, partition_by="On", internal="p")
    assert (tmp_path / "Users/me/Partitions/p/2024-01-02/T/N.dat").exists()
    table = open_table(tmp_path, "me.T")
    assert table.dates() == ["2024-01-01", "2024-01-02"]
    assert table.sources() == ["p"]
    assert table.to_arrow("N", dates="2024-01-02")["N"].to_pylist() == [1, 3]
    assert numbers(tmp_path, "\"On\" = '2024-01-01'") == [2]
    assert table.count(tier="history") == 3
    assert table.count(tier="intraday") == 0
    with pytest.raises(TableNotFoundError, match="no partition"):
        table.to_arrow(dates="2024-01-03")
    with pytest.raises(TableNotFoundError, match="no source"):
        table.to_arrow(sources="q")


def test_a_location_that_no_save_has_written_stays(tmp_path: Path) -> None:
    """One that was copied in by hand, under names that no save gives."""
    save_table(tmp_path, "me.T", ROWS, partition_by="Day")
    (source,) = (tmp_path / "Users/me/Partitions").glob("*/a/T")
    copy = source.parents[1] / "c" / "T"
    shutil.copytree(source, copy)
    save_table(tmp_path, "me.T", ROWS, mode="append", partition_by="Day")
    assert (copy / "N.dat").exists()
    assert open_table(tmp_path, "me.T").count() == 6


@pytest.mark.parametrize("value", ["", ".", "..", "a/b", "a\\b", ".hidden", "a\nb", "x" * 201])
def test_a_value_that_cannot_be_a_directory_is_refused(tmp_path: Path, value: str) -> None:
    data = pa.table({"Day": ["a", value], "N": [1, 2]})
    with pytest.raises(InvalidNameError, match="partition value"):
        save_table(tmp_path, "me.T", data, partition_by="Day")
    with pytest.raises(SchemaMismatchError, match="no partition value"):
        save_table(tmp_path, "me.T", pa.table({"Day": ["a", None], "N": [1, 2]}), partition_by="Day")
    with pytest.raises(TableNotFoundError):
        open_table(tmp_path, "me.T")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a.b", "-a", ".T", "é"])
def test_names_never_become_paths_unchecked(tmp_path: Path, name: str) -> None:
    for namespace, table in ((name, "T"), ("me", name)):
        with pytest.raises(InvalidNameError):
            save_table(tmp_path, f"{namespace}.{table}", ROWS)
    with pytest.raises(InvalidNameError, match="column name"):
        save_table(tmp_path, "me.T", ROWS.rename_columns(["Day", name]))
    if name != "a.b":
        with pytest.raises(InvalidNameError, match="internal partition"):
            save_table(tmp_path, "me.T", ROWS, partition_by="Day", internal=name if "." in name else "../x")
    assert not (tmp_path / "Users").exists() or not list((tmp_path / "Users").rglob("T*"))


def test_columns_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="in case only"):
        save_table(tmp_path, "me.T", ROWS.rename_columns(["n", "N"]))
    with pytest.raises(SchemaMismatchError, match="one name"):
        save_table(tmp_path, "me.T", ROWS.rename_columns(["N", "N"]))


def test_whatever_gives_arrow_can_be_saved(tmp_path: Path) -> None:
    frame = ROWS.to_pandas(types_mapper=pd.ArrowDtype)
    for data in (ROWS, ROWS.to_batches()[0], ROWS.to_reader(1), frame, open_capsule(ROWS)):
        save_table(tmp_path, "me.T", data)
        assert numbers(tmp_path) == [1, 2, None]
    save_table(tmp_path, "me.Indexed", frame.set_index("Day"))
    assert set(open_table(tmp_path, "me.Indexed").arrow_schema().names) == {"Day", "N"}
    with pytest.raises(SettingsError, match="read as Arrow"):
        save_table(tmp_path, "me.T", [1, 2])


class open_capsule:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_a_schema_gives_types_storage_and_order(tmp_path: Path) -> None:
    schema = (
        b'<Table namespace="me" name="T" storageType="SplayedOnDisk"><Column name="N" dataType="int"/>'
        b'<Column name="Day" dataType="String" columnType="Grouping" symbolTable="None"/></Table>'
    )
    save_table(tmp_path, "me.T", ROWS, schema=schema)
    table = open_table(tmp_path, "me.T")
    assert table.arrow_schema() == pa.schema({"N": pa.int32(), "Day": pa.string()})
    assert (tmp_path / "Users/me/Tables/T/Day.bytes").exists()
    assert not table.schema.grouping
    with pytest.raises(SchemaMismatchError, match="row 1"):
        save_table(tmp_path, "me.T", ROWS.set_column(1, "N", pa.array([1, 2**40, 3])), schema=schema)
    with pytest.raises(SettingsError, match="an append takes the schema"):
        save_table(tmp_path, "me.T", ROWS, schema=schema, mode="append")
    with pytest.raises(SchemaMismatchError, match="another table"):
        save_table(tmp_path, "me.Other", ROWS, schema=schema)


def test_a_table_without_rows_is_a_table(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS.slice(0, 0))
    assert open_table(tmp_path, "me.T").to_arrow().num_rows == 0
    save_table(tmp_path, "me.T", ROWS, mode="append")
    assert numbers(tmp_path) == [1, 2, None]
    save_table(tmp_path, "me.P", ROWS.slice(0, 0), partition_by="Day")
    assert open_table(tmp_path, "me.P").to_arrow().num_rows == 0


def test_the_lock_file_is_hidden_empty_and_stays(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    path = tmp_path / "Users/me/Definitions/.T-LOCKFILE"
    before = path.stat()
    save_table(tmp_path, "me.T", ROWS)
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_size == 0


def test_a_save_waits_for_the_lock_of_another_process(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    lock = tmp_path / "Users/me/Definitions/.T-LOCKFILE"
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(lock), held, release))
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(LockLostError, match="saving the user table") as raised:
            save_rows(place_of(tmp_path), ROWS, SaveOptions(wait_s=0.05))
        assert raised.value.exit_code == 3
        assert open_table(tmp_path, "me.T").count() == 3
    finally:
        release.set()
        holder.join(60)
    save_rows(place_of(tmp_path), ROWS, SaveOptions("append", wait_s=60))
    assert open_table(tmp_path, "me.T").count() == 6


def _hold(path: str, held: Any, release: Any) -> None:
    """As a JVM does it: a POSIX record lock of the whole file."""
    import fcntl

    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        held.set()
        release.wait(60)


def test_one_process_has_one_save_at_a_time(tmp_path: Path) -> None:
    save_table(tmp_path, "me.T", ROWS)
    lock = Fs().record_lock(tmp_path / "Users/me/Definitions/.T-LOCKFILE")
    assert lock is not None
    with lock, pytest.raises(LockLostError):
        save_rows(place_of(tmp_path), ROWS, SaveOptions(wait_s=0))
    save_table(tmp_path, "me.T", ROWS)


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_old_rows_stay_for_readers_and_go_after_the_grace_period(tmp_path: Path, by: str | None) -> None:
    save_table(tmp_path, "me.T", ROWS, partition_by=by)
    old = open_table(tmp_path, "me.T")
    for _ in range(3):
        save_table(tmp_path, "me.T", ROWS.slice(0, 1), partition_by=by)
    assert old.to_arrow("N").num_rows == 3
    later = time.time() + GRACE_S + 1
    save_rows(place_of(tmp_path), ROWS, SaveOptions(partition_by=by), clock=lambda: later)
    with pytest.raises(SnapshotMovedError):
        old.to_arrow("N")
    assert sorted(numbers(tmp_path), key=str) == [1, 2, None]
    assert len(list((tmp_path / "Users/me").rglob("N.dat"))) == (3 if by else 2)  # the newest, and what it replaced


@pytest.mark.parametrize("by", [None, "Day"], ids=["splayed", "partitioned"])
def test_rows_of_a_first_save_that_nobody_has_seen_are_not_appended_to(tmp_path: Path, by: str | None) -> None:
    """Killed at each change, then run again in mode append: the rows are there once, or were shown before."""
    for call in range(200):
        place = TablePlace(KillingFs(crash_after=call), Layout(tmp_path / str(call)), TableName.parse("me.T"))
        options = SaveOptions("append", by)
        try:
            save_rows(place, ROWS, options)
        except Crash:
            shown = open_rows(place.layout.root)
            save_rows(replace(place, fs=Fs()), ROWS, options)
            assert open_rows(place.layout.root) == shown + ROWS.num_rows
            assert shown in (0, ROWS.num_rows) and not place.user_first.exists()
        else:
            assert call > 10
            return
    raise AssertionError("a save never ends")


def open_rows(root: Path) -> int:
    """How many rows readers see."""
    try:
        return open_table(root, "me.T").count()
    except TableNotFoundError:
        return 0
