"""A reader in Java, written from ``docs/format`` alone, finds the rows of locations of every type."""

from __future__ import annotations

import base64
import math
import random
import struct
import subprocess
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.big_endian import big_endian
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers import coded_rows, merge_cases
from tests.support.writers.merge_runs import FS, make, merge

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
READER = Path(__file__).parents[2] / "examples" / "java" / "ReadTable.java"
LINES = 400
_NS = 1_000_000_000


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that reads a location."""
    classes = tmp_path_factory.mktemp("reader")
    subprocess.run(["javac", "-d", str(classes), str(READER)], check=True, timeout=120)
    return ["java", "-cp", str(classes), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "ReadTable"]


def rows_of(reader: list[str], location: Path) -> list[dict[str, str]]:
    run = subprocess.run([*reader, str(location)], capture_output=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr.decode()
    head, *lines = run.stdout.decode().removesuffix("\n").split("\n")
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def shown(value: Any, kind: str) -> str:
    """What Java prints for a value of a column of this type."""
    if value is None:
        return "null"
    if kind == "Boolean":
        return str(value).lower()
    if kind == "char":
        return "?" if 0xD800 <= value < 0xE000 else chr(value)  # UTF-8 has no half of a pair
    if kind in ("float", "double"):
        return repr(value)
    if kind == "Instant":
        return str(value)
    if kind == "moment":
        return moment(value)
    if kind == "LocalTime":
        return clock(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if kind == "Map":
        return "{" + ", ".join(f"{key}={shown(one, 'double')}" for key, one in value) + "}"
    if isinstance(value, list):
        element = {"boolean[]": "Boolean", "float[]": "float", "double[]": "double", "Instant[]": "moment"}.get(
            kind, ""
        )
        return "[" + ", ".join(shown(one, element) for one in value) + "]"
    return str(value)


def moment(ns: int) -> str:
    """An Instant as Java writes it: with 0, 3, 6 or 9 digits behind the seconds."""
    seconds, below = divmod(ns, _NS)
    digits = f".{below:09d}" if below else ""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{digits}Z"


def clock(ns: int) -> str:
    """A LocalTime as Java writes it: without seconds that are 0, and with 3, 6 or 9 digits behind them."""
    seconds, below = divmod(ns, _NS)
    plain = time(seconds // 3600, seconds // 60 % 60, seconds % 60)
    if not below:
        return plain.isoformat("seconds" if plain.second else "minutes")
    digits = f"{below:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{plain.isoformat()}.{digits}"


def same(found: list[dict[str, str]], rows: list[dict[str, Any]], schema: TableSchema) -> None:
    """Each value is the one that stands there; numbers as numbers, since Java writes them in other digits."""
    assert len(found) == len(rows)
    for one, row in zip(found, rows, strict=True):
        for column in schema.stored:
            kind, printed = column.type.name, one[column.name]
            expected = shown(row[column.name], kind)
            if kind in ("float", "double", "float[]", "double[]", "Map"):
                narrow = kind.startswith("float")
                assert numbers(printed, narrow) == numbers(expected, narrow), column.name
            else:
                assert printed == expected, column.name


def numbers(text: str, narrow: bool) -> list[Any]:
    """The parts of a printed value, numbers as values (``narrow``: of a float); NaN is equal to itself."""
    parts = text.replace("Infinity", "inf").strip("[]{}").replace("=", ", ").split(", ")
    form = "f" if narrow else "d"
    return [struct.pack(form, float(part)) if part not in ("", "null", "a", "b", "c") else part for part in parts]


def test_types_with_a_codec(tmp_path: Path, reader: list[str]) -> None:
    rng = random.Random(4)
    rows = [coded_rows.coded_row(rng, number) for number in range(150)]
    db = IntradayRows(tmp_path, coded_rows.SCHEMA, fs=FS)
    db.commit({("a", coded_rows.DAY): coded_rows.coded_table(db.schema, rows)})
    location = db.layout.intraday_location(db.table, LocationKey("a", coded_rows.DAY))
    same(rows_of(reader, location), rows, db.schema)
    for column in db.schema.stored:
        big_endian(location, column)
    same(rows_of(reader, location), rows, db.schema)


def test_plain_types_of_history(tmp_path: Path, reader: list[str]) -> None:
    db, rows = make(tmp_path, 80, partitions=1)
    merge(db.layout)
    key = LocationKey("0", merge_cases.DAY)
    ordered = merge_cases.read_location(db.layout, db.schema, key)
    for row in ordered:
        row["T"] = instant(row["T"])
    assert len(ordered) == len(rows)
    found = rows_of(reader, db.layout.history_location(merge_cases.TABLE, key))
    same(found, ordered, db.schema)


def instant(value: Any) -> str | None:
    """An Instant as Java writes it."""
    if value is None:
        return None
    ns = value if isinstance(value, int) else int(value.value)
    moment = datetime.fromtimestamp(math.floor(ns / _NS), UTC)
    below = f"{ns % _NS:09d}"
    while below.endswith("000"):
        below = below[:-3]
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{below}" if below else "") + "Z"


def test_it_stays_short() -> None:
    assert len(READER.read_text().splitlines()) <= LINES


def test_damage_names_column_and_row(tmp_path: Path, reader: list[str]) -> None:
    db = IntradayRows(tmp_path, coded_rows.SCHEMA, fs=FS)
    rng = random.Random(4)
    rows = [coded_rows.coded_row(rng, number) | {"Doubles": [1.5]} for number in range(3)]
    db.commit({("a", coded_rows.DAY): coded_rows.coded_table(db.schema, rows)})
    location = db.layout.intraday_location(db.table, LocationKey("a", coded_rows.DAY))
    data = bytearray((location / "Doubles.bytes").read_bytes())
    data[len(data) // 3] = 0xFF  # the header of the second value
    (location / "Doubles.bytes").write_bytes(data)
    run = subprocess.run([*reader, str(location)], capture_output=True, timeout=120, check=False)
    assert run.returncode == 1
    assert b"column Doubles, row 1" in run.stderr


def test_partition_is_no_column(tmp_path: Path, reader: list[str]) -> None:
    db, _ = make(tmp_path, 3, partitions=1)
    add_partition(FS, db.layout, "Test", "9")
    location = db.layout.intraday_location(db.table, LocationKey("b", merge_cases.DAY))
    assert "Date" not in rows_of(reader, location)[0]
