"""Columns as the Spark reader in Java has them: every charset and plain type, large dictionaries, ranges, damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.testing import make_table
from tests.jvm.test_java_rows import same
from tests.support.commands import run
from tests.support.spark.java_rows import by_java, by_python, options_of, plan_of, run_java
from tests.support.tables.intraday_rows import IntradayRows

pytestmark = pytest.mark.jvm

NAME = "NS.Rows"
DAYS = ("2026-11-20", "2026-11-21")
CHARSETS = ("ISO_8859_1", "UTF_8", "US_ASCII", "UTF_16", "UTF_16BE", "UTF_16LE")
PLAIN = ("Boolean", "byte", "char", "short", "int", "long", "float", "double", "Instant")
WORDS = {"ISO_8859_1": ["a", "", None, "Zürich", "ÿ"], "US_ASCII": ["a", "", None, "plain", "~"]}
ANY = ["a", "", None, "Zürich", "日本語 \U0001f600", "\x01"]
ROWS = 9_000  # three batches


def definition() -> bytes:
    lines = ['  <Column name="Date" dataType="String" columnType="Partitioning"/>']
    lines += [f'  <Column name="{name.title()}" dataType="{name}"/>' for name in PLAIN]
    for charset in CHARSETS:
        for letter, kind in (("S", "ColumnLocation"), ("N", "None")):
            text = f'dataType="String" symbolTable="{kind}" encoding="{charset}"'
            lines.append(f'  <Column name="{letter}_{charset}" {text}/>')
    body = "\n".join(lines)
    return (
        '<Table namespace="NS" name="Rows" storageType="NestedPartitionedOnDisk">\n'
        '  <Partitions keyFormula="${autobalance_single}"/>\n' + body + "\n</Table>\n"
    ).encode()


def values(kind: pa.DataType, rows: int, seed: int, *, nulls: bool) -> pa.Array:
    """Values with the extremes that are not null."""
    rng = np.random.default_rng(seed)
    mask = rng.random(rows) < 0.1 if nulls else None
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(rows) < 0.5, kind, mask=mask)
    if pa.types.is_floating(kind):
        numbers = rng.normal(size=rows).astype(kind.to_pandas_dtype())
        special = [np.nan, np.inf, -np.inf, -0.0, np.finfo(numbers.dtype).max][:rows]
        numbers[: len(special)] = special
        return pa.array(numbers, kind, mask=mask, from_pandas=False)
    if pa.types.is_timestamp(kind):
        return pa.array(rng.integers(-(1 << 60), 1 << 60, rows) // 1000 * 1000, pa.int64(), mask=mask).cast(kind)
    if kind == pa.uint16():
        return pa.array(rng.integers(1, 0xD800, rows), kind, mask=mask)
    bounds = np.iinfo(kind.to_pandas_dtype())
    numbers = rng.integers(bounds.min + 1, bounds.max, rows, dtype=kind.to_pandas_dtype(), endpoint=True)
    return pa.array(numbers, kind, mask=mask)


def rows_of(db: IntradayRows, rows: int, seed: int, *, nulls: bool) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for number, column in enumerate(db.schema.stored):
        if column.type.name == "String":
            known = [word for word in WORDS.get(column.encoding or "", ANY) if nulls or word is not None]
            picked = np.random.default_rng(seed + number).integers(0, len(known), rows)
            columns[column.name] = pa.array(known, pa.string()).take(pa.array(picked))
        else:
            columns[column.name] = values(column.type.arrow, rows, seed + number, nulls=nulls)
    return pa.table(columns)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> IntradayRows:
    """Locations with and without nulls, with files that lack columns, and rows of several epochs."""
    rows = IntradayRows(tmp_path_factory.mktemp("columns") / "db", definition(), statistics=True)
    rows.commit({("a", DAYS[0]): rows_of(rows, ROWS, 1, nulls=True), ("b", DAYS[0]): rows_of(rows, 7, 2, nulls=True)})
    rows.commit({("a", DAYS[0]): rows_of(rows, 5, 3, nulls=False), ("a", DAYS[1]): rows_of(rows, 50, 4, nulls=False)})
    rows.commit({("c", DAYS[1]): rows_of(rows, 3, 5, nulls=True).select(["Long"])})
    return rows


def test_every_plain_type_and_charset(db: IntradayRows, tmp_path: Path) -> None:
    choices = [
        {},
        {"char": "int", "instant": "long"},
        {"columns": "S_UTF_8,Date,Double,N_UTF_16"},
        {"taskBytes": "1048576"},
    ]
    results = same([options_of(db.root, NAME, **chosen) for chosen in choices], tmp_path)
    assert [len(rows) for rows in results] == [ROWS + 65] * len(choices)
    assert results[0] == results[3]


def test_large_dictionaries(tmp_path: Path) -> None:
    """Texts of more than 65,536 symbols are made when a row has them."""
    words = [f"é{number}" if number % 2 else str(number) for number in range(70_000)]
    texts = [None, "", *words, None, *words[::-7], ""]
    plain = [str(number) for number in range(len(texts))]
    make_table(tmp_path / "db", NAME, {"Sym": pa.array(texts), "Plain": pa.array(plain)})
    (rows,) = same([options_of(tmp_path / "db", NAME)], tmp_path)
    assert len(rows) == len(texts)


def test_withdrawn_rows_in_divided_locations(tmp_path: Path) -> None:
    root, count, gone = tmp_path / "db", 150_000, (0, 4095, 4096, 9000, 149_999)
    make_table(root, NAME, {"N": range(count), "Sym": [str(n % 997) for n in range(count)]})
    assert run(root, "delete-rows", NAME, "--where", f"N in {gone} OR Sym = '3'").exit_code == 0
    whole, divided = same([options_of(root, NAME), options_of(root, NAME, taskBytes="1048576")], tmp_path)
    assert whole == divided and len(whole) == sum(n not in gone and n % 997 != 3 for n in range(count))


def damaged(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)


FAULTS: list[tuple[str, Callable[[bytes], bytes | None], str]] = [
    ("Long.dat", lambda data: data[:-8], "file is shorter than its committed length"),
    ("Long.dat", lambda data: None, "a committed file is missing"),
    ("Long.dat", lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:], "prefix"),
    ("S_UTF_8.dat", lambda data: data[:4096] + b"\xff\xff\xff\x7f" + data[4100:], "not in the table"),
    ("S_UTF_8.sym", lambda data: b"\xff" * 8 + data[8:], "end of a value is negative"),
    ("S_UTF_8.sym.bytes", lambda data: b"\xff" + data[1:], "not text in the column's charset"),
    ("N_UTF_8.dat", lambda data: data[:4096] + b"\xff" * 8 + data[4104:], "end of a value is negative"),
    ("N_UTF_16BE.bytes", lambda data: b"\xd8\x00" * (len(data) // 2) + data[len(data) // 2 * 2 :], "charset"),
    ("N_UTF_8.bytes", lambda data: data[:-3], "file is shorter than its committed length"),
]


def test_damage_is_told_by_what_it_is(db: IntradayRows, tmp_path: Path) -> None:
    reads = []
    for number, (file, change, _) in enumerate(FAULTS):
        root = shutil.copytree(db.root, tmp_path / str(number))
        damaged(root / "Intraday" / "NS" / "Rows" / "a" / DAYS[0] / "Rows" / file, change)
        reads.append(options_of(root, NAME, columns=file.partition(".")[0], checksumVerify="off"))
    for (file, _, words), options, rows in zip(FAULTS, reads, by_java(reads, tmp_path), strict=True):
        assert len(rows) == 1 and words in rows[0] and file.partition(".")[0] in rows[0], (file, rows[:1])
        (python,) = by_python(options)
        assert python.partition(":")[0] == rows[0].partition(":")[0], file


def test_a_plan_that_is_cut_or_changed_is_refused(db: IntradayRows, tmp_path: Path) -> None:
    plan = plan_of(options_of(db.root, NAME, columns="Boolean"))
    assert isinstance(plan, bytes)
    contents = [plan[:size] for size in (0, 7, 8, 20, 24, 100, len(plan) - 1)] + [plan + b"\0"]
    step = max(1, len(plan) // 60)
    contents += [plan[:p] + bytes([plan[p] ^ 0x10]) + plan[p + 1 :] for p in range(0, len(plan), step)]
    paths = []
    for number, content in enumerate([*contents, plan]):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(content)
    lines = run_java("plans", *paths)
    assert sum(line.startswith("Error: the plan of a read is damaged") for line in lines) == len(contents)
    assert lines.count("end") == 1 and len(lines) == len(contents) + ROWS + 65 + 1
    assert not any(path.exists() for path in paths)
