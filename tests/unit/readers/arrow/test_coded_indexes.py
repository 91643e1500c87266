"""Indexes over columns with a codec: only rows with the keys are read, and another reader finds the same sets."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import CorruptFileError, SchemaParseError
from sparkhaven.store.format.table.tbl import decode_tbl
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.naive_rowset import naive_ranges
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, TABLE, coded_row, coded_table, counted, key_text
from tests.support.writers.merge_runs import FS, merge

Row = dict[str, Any]
KEYS = ("Day", "Far", "Clock", "Short", "Px", "Wide", "Whole")
UNORDERED = tuple(name for name in COLUMNS if name not in KEYS)
ROWS, DISTINCT = 400, 40
FORMS = pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])


def indexed(*indexes: str) -> bytes:
    elements = "".join(f'<DataIndex columns="{columns}"/>' for columns in indexes)
    return SCHEMA.replace(b"</Table>", f"{elements}</Table>".encode())


def rows_of(count: int = ROWS) -> list[Row]:
    """Rows whose keys come again and again; those of decimals lie on both sides of zero."""
    chance = random.Random(7)
    keys = [coded_row(chance, number) for number in range(DISTINCT)]
    for number, key in enumerate(keys):
        key["Px"] = None if number == 3 else Decimal(number - 20).scaleb(-6)
        key["Wide"] = None if number == 3 else Decimal(number - 20).scaleb(-10)
        key["Whole"] = None if number == 3 else Decimal(number - 20)
    rows = [coded_row(chance, number) for number in range(count)]
    for row in rows:
        row.update({name: chance.choice(keys)[name] for name in KEYS})
    return rows


def built(root: Path, form: str, schema: bytes, rows: list[Row], sizes: BlockSizes | None = None) -> Path:
    db = IntradayRows(root, schema, fs=FS)
    db.commit({("a", DAY): coded_table(db.schema, rows)})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, table=TABLE, format=form, **({} if sizes is None else {"sizes": sizes}))
    return next(db.layout.partitions("Test").rglob("table.size")).parent


def found(root: Path, where: str) -> tuple[list[int], int]:
    """The numbers of rows, and how many rows were read for that."""
    counts: list[int] = []
    batches = open_table(root, str(TABLE), checksum_verify="open").to_batches(["N"], where=where, on_read=counts.append)
    return sorted(batches.read_all()["N"].to_pylist()), sum(counts)


def chosen(rows: list[Row], keep: Callable[[Row], bool]) -> list[int]:
    return [row["N"] for row in rows if keep(row)]


@FORMS
def test_a_read_takes_the_rows_that_match(tmp_path: Path, form: str) -> None:
    rows = rows_of()
    built(tmp_path, form, indexed(*KEYS, "Whole,Far"), rows)
    for name in KEYS:
        value, other = (next(row[name] for row in part if row[name] is not None) for part in (rows, rows[::-1]))
        one, two = (f"'{key_text(name, key)}'" for key in (value, other))
        wanted = chosen(rows, lambda row, name=name, value=value: row[name] == value)  # type: ignore[misc]
        assert found(tmp_path, f"{name} = {one}") == (wanted, len(wanted)), name
        wanted = chosen(rows, lambda row, name=name, pair=(value, other): row[name] in pair)  # type: ignore[misc]
        assert found(tmp_path, f"{name} in ({one}, {two})") == (wanted, len(wanted)), name
        wanted = chosen(rows, lambda row, name=name: row[name] is None)  # type: ignore[misc]
        assert found(tmp_path, f"{name} is null") == (wanted, len(wanted)), name
    day = rows[0]["Far"]
    wanted = chosen(rows, lambda row: row["Whole"] == -7 and row["Far"] == day)
    assert found(tmp_path, f"Whole = -7 and Far = '{day}'") == (wanted, len(wanted))


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("Px = 0.0000005", "Px"),  # has a digit more than the column
        ("Px in (99999999999999999999, -99999999999999999999999)", "Px"),
        ("Whole = 1.5", "Whole"),
        ("Day = '9999-12-31'", "Day"),
    ],
)
def test_a_literal_that_no_value_equals_reads_no_row(tmp_path: Path, where: str, name: str) -> None:
    built(tmp_path, "deephaven", indexed(name), rows_of(60))
    assert found(tmp_path, where) == ([], 0)


def test_a_time_with_more_digits_than_the_column_is_no_key(tmp_path: Path) -> None:
    rows = rows_of(60)
    built(tmp_path, "deephaven", indexed("Short"), rows)
    value = next(row["Short"] for row in rows if row["Short"] is not None)
    assert found(tmp_path, f"Short = '{key_text('Short', value)}'")[1] > 0
    assert found(tmp_path, f"Short = '{key_text('Short', value + 1)}'") == ([], 0)


@FORMS
def test_keys_ascend_and_have_their_rows(tmp_path: Path, form: str) -> None:
    rows = rows_of()
    location = built(tmp_path, form, indexed(*KEYS), rows)
    order = open_table(tmp_path, str(TABLE)).to_arrow(["N"])["N"].to_pylist()
    for name in KEYS:
        definition = decode_tbl((location / f"Index-{name}" / "table.tbl").read_bytes(), name)
        key = definition.columns[0]
        codec = next((part for part in COLUMNS[name].split('"') if part.startswith("io.deephaven")), key.codec)
        assert (key.name, key.codec) == (name, codec)
        if form == "deephaven":
            continue
        sidecar = pq.read_table(location / ".dh_metadata" / "indexes" / name / f"index_{name}_table.parquet")
        values = counted(sidecar[name].combine_chunks()).to_pylist()
        assert values[:1] == [None] and values[1:] == sorted(values[1:])
        sets = [
            [order[row] for first, last in naive_ranges(data) for row in range(first, last + 1)]
            for data in sidecar["dh_row_set"].to_pylist()
        ]
        assert [sorted(numbers) for numbers in sets] == [
            chosen(rows, lambda row, name=name, value=value: row[name] == value)  # type: ignore[misc]
            for value in values
        ]


@pytest.mark.slow
def test_pieces_give_the_same_files_as_one(tmp_path: Path) -> None:
    """Also of wide decimals, whose first bytes are alike."""
    rows, schema = rows_of(), indexed(*KEYS, "Wide,Px", "Sym,Clock")
    built(tmp_path / "one", "both", schema, rows)
    built(tmp_path / "many", "both", schema, rows, BlockSizes(rows=37, index_bytes=20_000))
    files = [path for path in (tmp_path / "one").rglob("*") if "ndex" in str(path.parent) and path.is_file()]
    compared = [path for path in files if path.suffix in (".dat", ".bytes", ".parquet")]
    assert len(compared) > 4 * len(KEYS)
    for path in compared:
        assert path.read_bytes() == (tmp_path / "many" / path.relative_to(tmp_path / "one")).read_bytes(), path


@FORMS
def test_a_damaged_index_costs_time_only_and_verify_names_it(tmp_path: Path, form: str) -> None:
    rows = rows_of()
    location = built(tmp_path, form, indexed("Px"), rows)
    where, wanted = "Px = 0.000001", chosen(rows, lambda row: row["Px"] == Decimal("0.000001"))
    assert run_json(tmp_path, "verify", str(TABLE), "--deep")[0] == 0
    path = location / "Index-Px" / "Px.dat"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert found(tmp_path, where) == (wanted, ROWS)
    code, report = run_json(tmp_path, "verify", str(TABLE), "--deep")
    assert (code, [Path(entry["path"]).name for entry in report["findings"] if entry["severity"] == "error"]) == (
        1,
        ["Px.dat"],
    )


def test_damaged_values_are_an_error_by_an_index_too(tmp_path: Path) -> None:
    location = built(tmp_path, "deephaven", indexed("Px"), rows_of())
    data = bytearray((location / "Px.dat").read_bytes())
    data[-1] ^= 1
    (location / "Px.dat").write_bytes(bytes(data))
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        open_table(tmp_path, str(TABLE), checksum_verify="open").to_arrow(["N", "Px"], where="Px = 0.000001")


@pytest.mark.parametrize("name", UNORDERED)
def test_what_has_no_order_is_no_key(name: str) -> None:
    (warning,) = [found for found in parse_schema(indexed(name), "Test.Coded.schema").findings if found.code == "W155"]
    assert "decimals with a precision" in str(warning) and name in str(warning)


@pytest.mark.parametrize("name", COLUMNS)
def test_no_type_with_a_codec_is_grouped_by(name: str) -> None:
    """Grouping metadata has no form for such a key; the hint names what there is instead."""
    text = SCHEMA.replace(f'name="{name}"'.encode(), f'name="{name}" columnType="Grouping"'.encode())
    with pytest.raises(SchemaParseError, match="E115") as caught:
        parse_schema(text, "Test.Coded.schema")
    assert ("with a DataIndex" in str(caught.value)) is (name in KEYS)
