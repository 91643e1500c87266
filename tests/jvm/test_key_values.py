"""Key formulas give dates, times and decimals the texts and hashes that a stock JVM gives them."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.expressions.formula.evaluation import parse_formula
from sparkhaven.store.types.codings.coding import JavaValues
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

pytestmark = pytest.mark.jvm

Java = list[list[str]]
SOURCE = Path(__file__).with_name("KeyValues.java")
RNG = random.Random(4)
DAY_NS = 86_400 * 10**9
TIMES = [0, 1, DAY_NS - 1, 60 * 10**9, 10**9, 10**6, 1000]
NUMBERS = [0, 1, -1, 10, 2**31, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**63, 10**17, -(10**38) + 1]
VALUES: dict[tuple[str, str], list[int]] = {
    ("LocalDate", "Compact"): [0, -1, -719_528, 2_932_896, *(RNG.randrange(-719_528, 2_932_896) for _ in range(99))],
    ("LocalTime", "9"): [*TIMES, *(RNG.randrange(DAY_NS) for _ in range(99))],
    **{
        (name, arguments): [number for number in NUMBERS if abs(number) < 10**precision]
        + [RNG.randrange(-(10**precision) + 1, 10**precision) for _ in range(100)]
        for name, arguments, precision in (
            ("BigDecimal", "18,6", 18),
            ("BigDecimal", "38,20", 38),
            ("BigDecimal", "76,0", 76),
            ("BigDecimal", "12,12", 12),
            ("BigInteger", "20", 20),
            ("BigInteger", "76", 76),
        )
    },
}


def text_hash(text: str) -> int:
    """``String.hashCode()`` of a text in ASCII."""
    code = 0
    for sign in text:
        code = (31 * code + ord(sign)) % 2**32
    return code - 2**32 * (code >= 2**31)


def typed(values: list[int], kind: pa.DataType) -> pa.Array:
    """Counts and unscaled numbers as values of a column, null last."""
    if pa.types.is_decimal(kind):
        numbers = [Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale)) for number in values]
        return pa.array([*numbers, None], kind)
    return pa.array([*values, None], pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, str], Java]:
    """What one JVM says of all values: text, hash, and hash of the text joined to a name."""
    given = [(key, value) for key, values in VALUES.items() for value in values]
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", str(SOURCE)]
    lines = "".join(f"{name} {value} {form.partition(',')[2]}\n" for (name, form), value in given)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=True)
    java: dict[tuple[str, str], Java] = defaultdict(list)
    for (key, _), line in zip(given, ran.stdout.splitlines(), strict=True):
        java[key].append(line.split("\t"))
    return java


@pytest.mark.parametrize(("name", "arguments"), VALUES, ids=map(" ".join, VALUES))
def test_texts_and_hashes_are_those_of_java(name: str, arguments: str, printed: dict[tuple[str, str], Java]) -> None:
    kind, java = data_type(name, None, arguments), printed[name, arguments]
    array, coding = typed(VALUES[name, arguments], kind.arrow), kind.coding
    assert isinstance(coding, JavaValues)
    assert coding.java_texts(array) == [*(text for text, _, _ in java), None]
    assert coding.java_hashes(array)[:-1].tolist() == [int(code) for _, code, _ in java]

    partitions = [str(number) for number in range(7)]
    schema = TableSchema("Ns", "Tab", (Column("Key", kind, Kind.NORMAL, Storage.FIXED, 1),))
    for formula, hashes in (
        ("Key.hashCode()", [*(int(code) for _, code, _ in java), 0]),
        ("(__NS_TN__ + Key).hashCode()", [*(int(code) for _, _, code in java), text_hash("Ns.Tabnull")]),
    ):
        text = f"__WRITABLE_PARTITIONS__[abs({formula}) % __NUM_WRITABLE_PARTITIONS__]"
        chosen = parse_formula(text, schema).assign("Ns", "Tab", "2024-03-05", {"Key": array}, partitions)
        assert chosen.tolist() == [0 if code == -(2**31) else abs(code) % 7 for code in hashes]
