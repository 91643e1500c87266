"""The compiled scanner says what the exact pass and a naive reader say, row by row, of good and bad lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import Target
from tests.support.ingest.ingest_cases import PLENTY
from tests.support.ingest.odd_fields import FIELD, NUMBERS, QUICK, SUITED, TARGETS, bits, block_of, rejected, typed

INTEGERS = {"byte": 8, "short": 16, "int": 32, "long": 64}


@st.composite
def _line(draw: st.DrawFn) -> bytes:
    """Mostly objects with fields that suit their columns; sometimes anything else."""
    broken = draw(st.integers(0, 19))
    if broken == 0:
        odd = [
            "",
            " ",
            "{",
            "}",
            "[1]",
            "5",
            "null",
            '{"a":1} {"a":2}',
            '{"a":1}x',
            '{"a":\x01}',
            '\t{"a":4}',
            '{"h":"\\ud800"}',
        ]
        return draw(st.sampled_from(odd)).encode()
    if broken == 1:
        return b'{"h":"\xff\xfe"}'
    names = draw(st.lists(st.sampled_from("abcdefghijklAxyz"), max_size=8, unique=draw(st.integers(0, 5)) > 0))
    space = draw(st.sampled_from(["", "", " "]))
    parts = []
    for name in names:
        suited = SUITED.get(name, NUMBERS)
        value = draw(suited if draw(st.integers(0, 5)) else FIELD)
        key = json.dumps(name) if draw(st.integers(0, 9)) else f'"\\u00{ord(name):02x}"'
        parts.append(f"{key}{space}:{space}{value}")
    comma = "," if draw(st.integers(0, 15)) == 0 else ""
    return ("{" + f",{space}".join(parts) + comma + "}").encode()


@pytest.mark.slow
@QUICK
@given(st.lists(_line(), min_size=1, max_size=30))
def test_scanner_and_exact_pass_agree(lines: list[bytes]) -> None:
    block = block_of(lines)
    assert block is not None
    outcomes = []
    for compiled in (True, False):
        rejects = Rejects(PLENTY)
        decoder = JsonDecoder(TARGETS, ["z"], compiled=compiled)
        once = typed(decoder.decode(block, "f", rejects), TARGETS)
        again = typed(decoder.decode(block, "f", rejects), TARGETS)  # unknown fields are known by now
        assert once == again
        outcomes.append((once, rejected(rejects), rejects.read, +rejects.ignored))
    assert outcomes[0] == outcomes[1]


@pytest.mark.slow
@QUICK
@given(st.lists(_line(), min_size=1, max_size=30))
def test_json_agrees_with_a_naive_reader(lines: list[bytes]) -> None:
    wanted = [t for t in TARGETS if t.column.type.name in (*INTEGERS, "double", "Boolean", "String")]
    block = block_of(lines)
    assert block is not None
    rejects = Rejects(PLENTY)
    rows = typed(JsonDecoder(wanted, []).decode(block, "f", rejects), wanted)
    expected, bad = [], []
    for number, line in enumerate(lines, 1):
        found = _naive(line, wanted)
        if found is None:
            bad.append(number)
        elif found != "blank":
            expected.append((number, tuple(bits(value) for value in found)))
    assert rows == expected
    assert sorted(row.line for row in rejects.rows) == bad


class _Bad(Exception):
    pass


def _number(text: str) -> Decimal:
    """Exponents beyond what Decimal holds are cut to five digits, which changes no result."""
    return Decimal(re.sub(r"([eE][+-]?)[0-9]{6,}", r"\g<1>99999", text))


def _whole(text: str) -> int | Decimal:
    """An int has no negative zero, a double has."""
    return Decimal(text) if text == "-0" else int(text)


def _naive(line: bytes, targets: Sequence[Target]) -> Any:
    if not line.strip():
        return "blank"

    def refuse(text: str) -> None:
        raise _Bad(text)

    try:
        record = json.loads(line.decode(), parse_float=_number, parse_int=_whole, parse_constant=refuse)
        if not isinstance(record, dict):
            return None
        return [_naive_value(record.get(t.source), t) for t in targets]
    except (_Bad, ValueError):
        return None


def _naive_value(value: Any, one: Target) -> Any:
    kind = one.column.type.name
    if value is None:
        return None
    if kind == "String":
        if not isinstance(value, str) or value == "\x00":
            raise _Bad
        value.encode("ascii" if one.column.encoding == "US_ASCII" else "utf-8")
        return value
    if kind == "Boolean":
        if not isinstance(value, bool):
            raise _Bad
        return value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _Bad
    if kind == "double":
        try:
            number = float(value)
        except OverflowError:
            raise _Bad from None
        if not math.isfinite(number) or number == -1.7976931348623157e308:
            raise _Bad
        return number
    limit = 2 ** (int(INTEGERS[kind]) - 1)
    if abs(value) >= 2**64 or value != int(value) or abs(int(value)) >= limit:  # type: ignore[operator]
        raise _Bad
    return int(value)
