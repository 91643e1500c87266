"""The fast passes say exactly what a naive reader says, row by row, over generated good and bad lines."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.bad_rows import Rejects
from ingest.content.lines import LineBlock, line_blocks
from ingest.formats.csv.rows import CsvRows
from ingest.formats.json.rows import JsonRows
from ingest.options.formats import CsvOptions
from ingest.spec import Target
from ingest.values.rows import Rows
from tests.support.ingest.ingest_cases import PLENTY, target

ALL = 10**9  # every line to the exact pass
QUICK = settings(max_examples=40, deadline=None)
INTEGERS = {"byte": 8, "short": 16, "int": 32, "long": 64}
TARGETS = (
    target("long", "a"),
    target("int", "b"),
    target("byte", "c"),
    target("double", "d"),
    target("float", "e"),
    target("Boolean", "f"),
    target("char", "g"),
    target("String", "h"),
    target("String", "i", encoding="US_ASCII"),
    target("Instant", "j"),
    target("Instant", "k", unit="ms"),
    target("Instant", "l", zone="Europe/Berlin"),
    target("short", "A"),  # differs from a by case only
)

_NUMBERS = st.sampled_from(
    [
        *[
            "0",
            "-0",
            "1",
            "7",
            "-7",
            "127",
            "128",
            "-127",
            "-128",
            "32767",
            "32768",
            "-32768",
            "2147483647",
            "2147483648",
        ],
        *["-2147483647", "-2147483648", "9007199254740993", "9007199254740993.0", "9223372036854775807", "1e-400"],
        *["1e9999999999999999999", "-1e-9999999999999999999", "0e9999999999999999999"],
        *[
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775807",
            "18446744073709551615",
            "1357016400000",
        ],
        *["3.0", "3.5", "3e0", "30e-1", "1E2", "1e400", "-1e400", "-0.0", "0.1", "1.5e3", "12.00", "0.30e1"],
        *[
            "3.0000000000000000001",
            "4503599627370497.00000000000001",
            "123456789012345678901234567890",
            "99999999999999999",
        ],
        *[
            "3.4028234663852886e38",
            "-3.4028234663852886e38",
            "3.5e38",
            "-1.7976931348623157e308",
            "1.7976931348623157e308",
        ],
        *["1357016400000.5", "1357016400000.0000001"],
    ]
)
_TEXTS = st.sampled_from(
    [
        *[
            "",
            "a",
            "AAPL",
            "é",
            "😀",
            "\x00",
            "\u0001",
            "a:b,c",
            '"',
            "\\",
            "null",
            "NaN",
            "a\nb",
            "\uffff",
            "5",
            "x" * 50,
        ],
        *[
            "2013-01-01",
            "2013-01-01T05:00:00Z",
            "2013-01-01 05:00:00.123456789",
            "2013-03-31T02:30:00",
            "2013-10-27T02:30",
        ],
        *[
            "2013-02-29T00:00:00Z",
            "1677-09-21T00:12:43.145224193Z",
            "1677-09-21T00:12:43.145224192Z",
            "2262-04-11T23:47:17Z",
        ],
        *[
            "2262-04-11T23:30:00-10:00",
            "2013-01-01T24:00:00Z",
            "2013-01-01T05:00:00+0100",
            "2013-01-01T05Z",
            "1600-01-01T00:00Z",
        ],
    ]
)
_WORDS = st.sampled_from(["true", "false", "null", "NaN", "Infinity", "-Infinity", "nan", "inf"])
_NESTED = st.sampled_from(["{}", "[]", '{"a":1}', "[1,2]", "[1,]", '{"x":NaN}', '[",]"]', '{"a":1,}'])


@st.composite
def _string(draw: st.DrawFn) -> str:
    text = draw(_TEXTS | st.text(max_size=6).filter(lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t)))
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


_FIELD = st.one_of(_NUMBERS, _string(), _WORDS, _NESTED)
_SUITED = {
    "a": _NUMBERS,
    "h": _string(),
    "i": _string(),
    "j": _string(),
    "l": _string(),
    "g": _string(),
    "f": st.sampled_from(["true", "false"]),
}


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
        suited = _SUITED.get(name, _NUMBERS)
        value = draw(suited if draw(st.integers(0, 5)) else _FIELD)
        key = json.dumps(name) if draw(st.integers(0, 9)) else f'"\\u00{ord(name):02x}"'
        parts.append(f"{key}{space}:{space}{value}")
    comma = "," if draw(st.integers(0, 15)) == 0 else ""
    return ("{" + f",{space}".join(parts) + comma + "}").encode()


def _block(lines: Sequence[bytes]) -> LineBlock | None:
    return next(line_blocks([b"".join(line + b"\n" for line in lines)]), None)


def _told(rows: Rows, targets: Sequence[Target]) -> list[tuple[int, tuple[Any, ...]]]:
    columns = []
    for one, array in zip(targets, rows.columns, strict=True):
        assert array.type == one.column.type.arrow
        plain = array.view("int64") if one.column.type.name == "Instant" else array
        columns.append([_bits(value) for value in plain.to_pylist()])
    return list(zip(rows.numbers.tolist(), zip(*columns, strict=True), strict=True))


def _bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def _rejected(rejects: Rejects) -> list[tuple[Any, ...]]:
    return sorted((r.line, r.column or "", r.reason, r.expected, r.value, r.payload) for r in rejects.rows)


@pytest.mark.slow
@QUICK
@given(st.lists(_line(), min_size=1, max_size=30))
def test_json_fast_pass_and_exact_pass_agree(lines: list[bytes]) -> None:
    block = _block(lines)
    assert block is not None
    outcomes = []
    for small in (0, ALL):
        rejects = Rejects(PLENTY)
        decoder = JsonRows(TARGETS, ["z"], small=small)
        once = _told(decoder.decode(block, "f", rejects), TARGETS)
        again = _told(decoder.decode(block, "f", rejects), TARGETS)  # unknown fields are learned by now
        assert once == again
        outcomes.append((once, _rejected(rejects), rejects.read, +rejects.ignored))
    assert outcomes[0] == outcomes[1]


@pytest.mark.slow
@QUICK
@given(st.lists(_line(), min_size=1, max_size=30))
def test_json_agrees_with_a_naive_reader(lines: list[bytes]) -> None:
    wanted = [t for t in TARGETS if t.column.type.name in (*INTEGERS, "double", "Boolean", "String")]
    block = _block(lines)
    assert block is not None
    rejects = Rejects(PLENTY)
    rows = _told(JsonRows(wanted, [], small=0).decode(block, "f", rejects), wanted)
    expected, bad = [], []
    for number, line in enumerate(lines, 1):
        found = _naive(line, wanted)
        if found is None:
            bad.append(number)
        elif found != "blank":
            expected.append((number, tuple(_bits(value) for value in found)))
    assert rows == expected
    assert sorted(row.line for row in rejects.rows) == bad


class _Bad(Exception):
    pass


def _number(text: str) -> Decimal:
    """Exponents beyond what Decimal holds are cut to five digits, which changes no verdict."""
    return Decimal(re.sub(r"([eE][+-]?)[0-9]{6,}", r"\g<1>99999", text))


def _naive(line: bytes, targets: Sequence[Target]) -> Any:
    if not line.strip():
        return "blank"

    def refuse(text: str) -> None:
        raise _Bad(text)

    try:
        record = json.loads(line.decode(), parse_float=_number, parse_constant=refuse)
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


# --- CSV ---------------------------------------------------------------------------------------------------

_CSV_TEXTS = st.one_of(
    _NUMBERS, _TEXTS, _WORDS, st.sampled_from(["+5", "007", "0x1F", " 5", "1_0", ".5", "5.", "--1", "NA", "TRUE"])
)


@st.composite
def _csv_line(draw: st.DrawFn) -> bytes:
    odd = draw(st.integers(0, 24))
    if odd == 0:
        return draw(
            st.sampled_from([b"", b" ", b'"', b'"a', b'a"b', b'"a"b,c', b"1,2", b"\xff", b'x,"a\n', b'b",y', b"a\rb"])
        )
    fields = []
    for one in CSV_TARGETS:
        text = draw(_CSV_TEXTS if draw(st.integers(0, 5)) == 0 else _SUITED.get(one.source, _NUMBERS))
        if len(text) > 1 and text[0] == text[-1] == '"' and draw(st.integers(0, 9)):
            text = json.loads(text)
        if draw(st.integers(0, 7)) == 0:
            text = draw(st.sampled_from(['5" pipe', 'say "hi"', 'a""b', 'x"', ' "y"', "a"])) + text
        bare = not text.startswith('"') and draw(st.booleans())  # then quotes stand for themselves
        quoted = any(mark in text for mark in (",\n\r" if bare else ',"\n\r')) or draw(st.integers(0, 5)) == 0
        fields.append('"' + text.replace('"', '""') + '"' if quoted else text)
    fields.append(draw(st.sampled_from(["x", "", '"1,2"'])))
    return ",".join(fields).encode() + draw(st.sampled_from([b"", b"", b"", b"\r"]))


CSV_TARGETS = tuple(one for one in TARGETS if one.source != "A")
CSV = CsvOptions(header=False, names=(*(t.source for t in CSV_TARGETS), "extra"), null=("", "NA"))


@pytest.mark.slow
@QUICK
@given(st.lists(_csv_line(), min_size=1, max_size=25))
def test_csv_fast_pass_and_exact_pass_agree(lines: list[bytes]) -> None:
    block = _block(lines)
    assert block is not None
    outcomes = []
    for exact in (False, True):
        rejects = Rejects(PLENTY)
        decoder = CsvRows(CSV_TARGETS, [], CSV, exact=exact)
        rows, used = decoder.decode(block, "f", rejects)
        assert used == len(block)
        outcomes.append((_told(rows, CSV_TARGETS), _rejected(rejects), rejects.read, +rejects.ignored))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("count", [1, 3, 50])
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=300), piece=st.integers(1, 40))
def test_lines_are_those_of_the_bytes(count: int, data: bytes, piece: int) -> None:
    data = data.replace(b"\x00", b"\n")
    chunks = [data[at : at + piece] for at in range(0, len(data), piece)]
    found: list[tuple[int, bytes]] = []
    for block in line_blocks(chunks, block=count, max_line=10**6):
        found += [(int(n), block.data[block.ends[i] : block.ends[i + 1]]) for i, n in enumerate(block.numbers)]
    whole = data.removeprefix(b"\xef\xbb\xbf")
    expected = whole.split(b"\n")
    ends = [line + b"\n" for line in expected[:-1]] + ([expected[-1]] if expected[-1] else [])
    assert found == list(enumerate(ends, 1))
    assert [n for n, _ in found] == list(range(1, len(found) + 1))
