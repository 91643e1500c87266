"""A stock JVM and we read each other's values of types with a codec: the JDK alone writes, and reads array streams."""

from __future__ import annotations

import math
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.contracts.codecs import FS, bits
from tests.support.tables.column_files import append_column

pytestmark = pytest.mark.jvm
SOURCE = Path(__file__).with_name("Codecs.java")
PACKAGE = "io.deephaven.util.codec."
COLUMNS: dict[str, tuple[str, str | None, str | None]] = {  # in the order in which Java numbers them
    "Compact": ("LocalDate", None, "Compact"),
    "Full": ("LocalDate", None, "Full"),
    "Nanos": ("LocalTime", None, "9"),
    "Micros": ("LocalTime", None, "6"),
    "Millis": ("LocalTime", None, "3"),
    "Seconds": ("LocalTime", None, "0"),
    "Narrow": ("BigDecimal", None, "18,6"),
    "Middle": ("BigDecimal", None, "38,10"),
    "Wide": ("BigDecimal", None, "76,20"),
    "Whole": ("BigInteger", None, "20"),
    "Huge": ("BigInteger", None, None),
    "Free": ("BigDecimal", None, None),
    "Raw": ("byte[]", "SimpleByteArrayCodec", None),
    "Key": ("byte[]", "ByteArrayCodec", "4"),
    "Bytes": ("byte[]", None, None),
    "Flags": ("boolean[]", None, None),
    "Units": ("char[]", None, None),
    "Shorts": ("short[]", None, None),
    "Ints": ("int[]", None, None),
    "Longs": ("long[]", None, None),
    "Floats": ("float[]", None, None),
    "Doubles": ("double[]", None, None),
    "Texts": ("String[]", None, None),
    "Moments": ("Instant[]", None, None),
    "Weights": ("Map", None, None),
}
ARRAYS = [name for name, (spelling, codec, _) in COLUMNS.items() if spelling.endswith("[]") and codec is None]


NUMBERS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, None]
ELEMENTS: dict[str, list[Any]] = {  # what we write
    "Bytes": [b"", None, b"\0\xff", bytes(range(256))],
    "Flags": [[True, False], None, []],
    "Units": [[0, 0xFFFE, None, 0xD800], None, []],
    "Shorts": [[0, None, -(2**15) + 1, 2**15 - 1], None, []],
    "Ints": [[0, None, -(2**31) + 1, 2**31 - 1], None, []],
    "Longs": [[0, None, -(2**63) + 1, 2**63 - 1], None, [], list(range(5000))],
    "Floats": [NUMBERS, None, []],
    "Doubles": [[*NUMBERS, 0.1], None, []],
    "Moments": [[0, None, 0, -1, 2**63 - 1, -(2**63) + 1], None, [], [None], [None, 5], [*range(3000)]],
    "Texts": [["one", None, "one", "", "\0", "é", "\uffee", "\U0001f600"], None, [], [None], ["é" * 40_000, "a"]],
}


def column(name: str) -> Column:
    """A column as Java numbers it."""
    spelling, codec, arguments = COLUMNS[name]
    kind = data_type(spelling, codec and PACKAGE + codec, arguments)
    return Column(name, kind, Kind.NORMAL, Storage.FIXED if kind.fixed else Storage.BLOB, list(COLUMNS).index(name))


def by_java(*words: str) -> dict[str, list[str]]:
    """What the program prints: the values of each column."""
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Dstdout.encoding=UTF-8", str(SOURCE), *words]
    ran = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    found: dict[str, list[str]] = defaultdict(list)
    for line in ran.stdout.decode().splitlines():
        name, _, value = line.partition("\t")
        found[name].append(value)
    return found


def text(value: Any, numbers: bool = False) -> str:
    """What Java prints for a value; ``numbers``: a text is that of a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if numbers else f"x{value.encode().hex()}"
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return str(value)


def texts(name: str, array: pa.Array) -> list[str]:
    """The same of a column."""
    if name == "Weights":
        pairs = [None if value is None else [f"{text(k)}={text(v)}" for k, v in value] for value in bits(array)]
        return ["null" if value is None else "{" + ", ".join(value) + "}" for value in pairs]
    return [text(value, name in ("Free", "Huge")) for value in bits(array)]


def test_we_read_what_java_writes(tmp_path: Path) -> None:
    printed = by_java("write", str(tmp_path))
    assert list(printed) == list(COLUMNS)
    for name, values in printed.items():
        own = column(name)
        sizes = {file: (tmp_path / file).stat().st_size - 4096 * file.endswith(".dat") for file in own.files}
        array = read_column(FS, tmp_path, own, sizes, len(values))
        array.validate(full=True)
        expected = [plain_number(value) for value in values] if name == "Free" else values
        assert texts(name, array) == expected, name


def plain_number(value: str) -> str:
    """Java prints zeros at the end, which the codec does not keep."""
    return value.rstrip("0").rstrip(".") if "." in value else value


def test_java_reads_the_array_streams_that_we_write(tmp_path: Path) -> None:
    expected = {}
    for name in ARRAYS:
        array = pa.array(ELEMENTS[name], column(name).type.arrow)
        append_column(FS, tmp_path, column(name), [array.slice(0, 1), array.slice(1)])
        expected[name] = texts(name, array)
    assert by_java("read", str(tmp_path), *ARRAYS) == expected


def test_bytes_are_those_of_java(tmp_path: Path) -> None:
    """All columns but that of texts, which Java writes once if they are one object."""
    java, ours = tmp_path / "java", tmp_path / "ours"
    for directory in (java, ours):
        directory.mkdir()
    by_java("write", str(java))
    for name in COLUMNS.keys() - {"Moments", "Texts"}:
        own = column(name)
        sizes = {file: (java / file).stat().st_size - 4096 * file.endswith(".dat") for file in own.files}
        array = read_column(FS, java, own, sizes, sizes[own.files[0]] // own.width)
        append_column(FS, ours, own, [array])
        for file in own.files:
            assert (ours / file).read_bytes() == (java / file).read_bytes(), file
