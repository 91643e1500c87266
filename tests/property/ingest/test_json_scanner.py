"""The compiled scanner makes of every line what the exact pass makes of it, and reads no byte that is not its own."""

from __future__ import annotations

import json
import math
import random
import re
import struct
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.lines import LineBlock, line_ends
from sparkhaven.ingest.formats.json.json_rows import UNKNOWN, Scanner
from sparkhaven.ingest.spec import Target
from tests.support.guard_pages import guarded
from tests.support.ingest.ingest_cases import target
from tests.support.ingest.odd_fields import TARGETS, block_of
from tests.support.ingest.one_way import same
from tests.support.ingest.scanning.lines import FORMS, compare
from tests.support.places import REPOSITORY

MANY = settings(max_examples=300, deadline=None)
GOOD = (
    b'{"a":12345678,"b":-7,"d":1.25e-3,"e":0.5,"f":true,"g":"\xc3\xa9","h":"AAPL","i":"x","u":[1,{"v":"w"}],'
    b'"j":"2013-01-01T05:00:00.25+01:00","k":1357016400000,"l":"2013-07-01T05:00:00","A":null,"y":"\\u00e9\\n"}'
)


def scanned(lines: list[bytes], *targets: Target) -> tuple[list[int], list[list[object]]]:
    """Which lines the scanner alone takes, and their values."""
    block = block_of(lines)
    assert block is not None
    found = Scanner(targets, [(one.source,) for one in targets]).scan(block)
    return found.lines.tolist(), [array.to_pylist() for array in found.columns]


def ends_of(data: bytes) -> np.ndarray[Any, Any]:
    behind = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    last = [] if not data or data.endswith(b"\n") else [len(data)]
    return np.concatenate([[0], behind, last])


@pytest.mark.slow
@MANY
@given(st.binary(max_size=300) | st.text("a\n\r", max_size=400).map(str.encode))
def test_line_ends(data: bytes) -> None:
    assert line_ends(data).tolist() == ends_of(data).tolist()


@pytest.mark.campaign
@pytest.mark.parametrize("first", [b"", b"\n", b"one line\n", b"a" * 99 + b"\n"])
@pytest.mark.parametrize("then", [b"", b"\n", b"b" * 40 + b"\n", b"no end"])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1_000_000])
def test_lines_of_another_length_than_the_first(first: bytes, then: bytes, size: int) -> None:
    data = (first * 65_536)[:65_536] + then * (size // max(len(then), 1))
    assert np.array_equal(line_ends(data), ends_of(data))
    assert np.array_equal(line_ends(data[:size]), ends_of(data[:size]))


@pytest.mark.slow
def test_generated_and_mutated_lines() -> None:
    assert compare(4000, 1) > 1000


@pytest.mark.slow
@MANY
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.sampled_from([17, 19, 6])
)
def test_doubles_are_the_nearest(numbers: list[float], digits: int) -> None:
    texts = [repr(number) for number in numbers] + [f"{number:.{digits - 1}e}" for number in numbers]
    lines = [b'{"v":%s}' % text.encode() for text in texts]
    taken, (values,) = scanned(lines, target("double"))
    for index, value in zip(taken, values, strict=True):
        assert struct.pack("<d", value) == struct.pack("<d", float(texts[index])), texts[index]
    sure = [i for i, text in enumerate(texts) if 1e-300 < abs(float(text)) < 1.7e308]
    assert set(sure) - set(taken) == set(), "17 digits and no extreme are never in doubt"


def test_doubles_of_seventeen_digits() -> None:
    """Many, because a carry out of the lower half of the power comes up once in a thousand."""
    chance = random.Random(5)
    texts = [f"{chance.randrange(10**16, 10**17)}e{chance.randint(-300, 290)}" for _ in range(40_000)]
    taken, (values,) = scanned([b'{"v":%s}' % text.encode() for text in texts], target("double"))
    assert [text for text, value in zip(texts, values, strict=True) if value != float(text)] == []
    assert len(taken) == len(texts)


def test_doubles_of_every_power() -> None:
    texts = [f"{d}e{p}" for p in range(-400, 400) for d in (1, 9007199254740993, 17976931348623157, 10**19 - 1)]
    taken, (values,) = scanned([b'{"v":%s}' % text.encode() for text in texts], target("double"))
    assert values == [float(texts[index]) for index in taken] and len(taken) > 2300
    assert all(math.isfinite(value) for value in values if isinstance(value, float))


@pytest.mark.parametrize("length", range(20))
def test_digits_of_every_length(length: int) -> None:
    text = b"1234567890123456789"[:length]
    block = block_of([b'{"v":%s}' % text, b'{"v":-%s.000}' % text, b'{"v":0.%s}' % text, b'{"v":%se2}' % text])
    assert block is not None
    same(block, [target("long")])
    same(block, [target("double")])
    same(block, [target("Instant", unit="s")])


@pytest.mark.slow
@MANY
@given(st.lists(st.text(max_size=20), min_size=1, max_size=10), st.booleans())
def test_texts(texts: list[str], escaped: bool) -> None:
    lines = [json.dumps({"v": text}, ensure_ascii=escaped).encode("utf-8", "surrogatepass") for text in texts]
    block = block_of([line for line in lines if b"\n" not in line])
    if block is not None:
        for encoding in ("UTF_8", "US_ASCII", "ISO_8859_1"):
            same(block, [target("String", encoding=encoding)])
        same(block, [target("char")])


@pytest.mark.parametrize("text", ["2013-01-28T05:00:00.25+01:00", "1013-12-10 23:59:09Z", "0999-10-01T10:10"])
def test_times_with_any_byte_in_any_place(text: str) -> None:
    """Also where two wrong digits make up for each other: a year like ``10{4`` is none."""
    made = text.encode()
    texts = [made[:place] + bytes([byte]) + made[place + 1 :] for place in range(len(made)) for byte in range(256)]
    block = block_of([b'{"v":"%s"}' % one for one in texts if b"\n" not in one])
    assert block is not None
    same(block, [target("Instant"), replace(target("Instant", "w", zone="Europe/Berlin"), source="v")])


def test_a_clean_line_is_not_in_doubt() -> None:
    taken, values = scanned([GOOD], *TARGETS)
    assert taken == [0] and values[0] == [12345678] and values[7] == ["AAPL"]


NOT_JSON = [
    *(
        b'{"v":%s}' % number
        for number in (b"01", b"-", b"+1", b".5", b"1.", b"1e", b"0x1", b"1_0", b"--1", b"Infinity")
    ),
    *(
        b'{"v":1,"u":%s}' % value
        for value in (b"[1}", b'{"a":1]', b"[1,]", b'{"a":1,}', b"[", b"{", b"[1 2]", b"{1:2}")
    ),
    *(
        b'{"v":1,"u":%s}' % value
        for value in (b"01", b"1.", b"nul", b"tru", b"NaN", b'{"a" 1}', b'"a', b'"\\x"', b'"\t"')
    ),
    *(
        b'{"v":1,"u":"%s"}' % text
        for text in (b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x9f\xbf", b"\xf4\x90\x80\x80", b"\xf0\x8f\xbf\xbf")
    ),
    *(
        b'{"v":1,"u":"%s"}' % text
        for text in (b"\x80", b"\xc3", b"\xff", b"\\ud800", b"\\udc00\\ud800", b"\\u12g4", b"\\u00")
    ),
    *(
        b"",
        b" ",
        b"[]",
        b"1",
        b"{",
        b"}",
        b'{"v":1',
        b'{"v":1}}',
        b'{"v":1}x',
        b'{"v" 1}',
        b'{"v":1,}',
        b'{,"v":1}',
        b"{v:1}",
    ),
    *(b'{"v":1,"v":1}', b'{"u":1,"u":1}', b"\xef\xbb\xbf{}", b'{"v":1 "u":2}', b'{"v"}'),
]
IS_JSON = [
    *(b'{"v":%s}' % number for number in (b"0", b"-0", b"1.0", b"10e-1", b"0.1e1", b"-5", b"null", b" 7 ")),
    *(
        b'{"v":1,"u":%s}' % value
        for value in (b"[]", b"{}", b'[{"a":[1,-0.5E+7]},null]', b"1" * 400, b"true", b"false")
    ),
    *(
        b'{"v":1,"u":"%s"}' % text
        for text in (b"\xed\x9f\xbf", b"\xf4\x8f\xbf\xbf", b"\\ud83d\\ude00", b"\\/\\b\\u00e9", b"]")
    ),
    *(b"{}", b' {"v" : 1 } \r', b'\t{"u":1,"t":2,"v":3}'),
]


def test_what_is_no_json_is_in_doubt_and_what_is_json_is_not() -> None:
    assert [NOT_JSON[index] for index in scanned(NOT_JSON, target("int"))[0]] == []
    taken = scanned(IS_JSON, target("int"))[0]
    assert [line for index, line in enumerate(IS_JSON) if index not in taken] == []


@pytest.mark.parametrize(("encoding", "held"), [("US_ASCII", 1), ("ISO_8859_1", 3), ("UTF_8", 6)])
def test_characters_that_the_charset_does_not_hold_are_in_doubt(encoding: str, held: int) -> None:
    texts = ["a", "\u00e9", "\u00ff", "\u0100", "\u20ac", "\U0001f600"]
    for escaped in (False, True):
        lines = [json.dumps({"v": text}, ensure_ascii=escaped).encode() for text in texts]
        taken, values = scanned(lines, target("String", encoding=encoding))
        assert taken == list(range(held)) and values == [texts[:held]]


def test_names_may_be_written_with_escapes() -> None:
    lines = [b'{"\\u0076":1,"w":2}', b'{"v":3,"\\u0077":4}', b'{"\\u00fc":5,"v":6}', b'{"\\ud83d\\ude00":null}']
    wanted = [target("int", "v"), target("int", "w"), target("int", "ü"), target("int", "😀")]
    taken, values = scanned(lines, *wanted)
    assert (taken, values[:3]) == ([0, 1, 2, 3], [[1, 3, 6, None], [2, 4, None, None], [None, None, 5, None]])
    odd = [b'{"\\u0076":1,"v":2}', b'{"v\\"":1}', b'{"v\\u0022":1}', b'{"\\ud800":1}', b'{"v"":1}', b'{"\\t":1}']
    block = block_of([*lines, *odd, b'{"%s":1}' % (b"\\u0061" * 43)])
    assert block is not None and same(block, wanted) == len(lines)


@pytest.mark.slow
@MANY
@given(st.lists(st.dictionaries(st.text(max_size=6), st.integers(0, 9), max_size=4), min_size=1, max_size=8))
def test_any_names(records: list[dict[str, int]]) -> None:
    written = re.compile(r'[^\x00-\x1f"\\.]+')
    names = sorted({name for record in records for name in record if written.fullmatch(name)})[:3]
    lines = [json.dumps(record, ensure_ascii=escaped).encode() for record in records for escaped in (False, True)]
    block = block_of([line for line in lines if b"\n" not in line])
    assert block is not None
    same(block, [target("int", name) for name in names] or [target("int")])


def test_several_columns_take_one_field() -> None:
    wanted = [target("long"), replace(target("double"), source="v"), target("String", "w")]
    block = block_of([b'{"v":1,"w":"a"}', b'{"v":null}', b'{"v":1.5}', b'{"w":"b","v":-0}', b'{"v":9007199254740993}'])
    assert block is not None and same(block, wanted) == 4
    found = Scanner(wanted, [(one.source,) for one in wanted]).scan(block)
    assert found.columns[0].to_pylist() == [1, None, 0, 9007199254740993]
    assert found.columns[1].to_pylist() == [1.0, None, -0.0, 9007199254740992.0]


def test_a_line_may_have_hundreds_of_unknown_fields() -> None:
    fields = b",".join(b'"u%d":%d' % (n, n) for n in range(900))
    taken, values = scanned([b'{%s,"v":%d}' % (fields, n) for n in range(3)], target("int"))
    assert (taken, values) == ([0, 1, 2], [[0, 1, 2]])


def test_more_unknown_names_than_the_table_holds() -> None:
    lines = [b'{"v":1,"x%d":2}' % number for number in range(2 * UNKNOWN)]
    block = block_of(lines)
    assert block is not None
    assert same(block, [target("int")]) == UNKNOWN


def test_names_that_an_escape_would_have_to_write_are_not_looked_for() -> None:
    for name in ('a"b', "a\\", "\x01"):
        with pytest.raises(ValueError, match=r".*"):
            Scanner([target("int")], [(name,)])


@pytest.mark.slow
def test_the_guard_page_ends_a_process_that_reads_it() -> None:
    code = (
        "import ctypes; from tests.support.guard_pages import guarded\n"
        "import numpy as np\n"
        "with guarded(np.zeros(3, np.uint8)) as octets: ctypes.string_at(octets.ctypes.data, 4)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=REPOSITORY).returncode == -11


@pytest.mark.slow
def test_nothing_is_read_behind_the_end() -> None:
    scanner = Scanner(FORMS, [tuple(one.source.split(".")) for one in FORMS])
    whole = GOOD + b"\n" + GOOD
    for stop in range(1, len(whole) + 1):
        with guarded(np.frombuffer(whole[:stop], np.uint8)) as octets:
            data = memoryview(octets)
            ends = line_ends(data)  # type: ignore[arg-type]
            block = LineBlock(data, ends, np.arange(len(ends) - 1))  # type: ignore[arg-type]
            taken = scanner.scan(block).lines.tolist()
            assert taken == [n for n in range(len(ends) - 1) if ends[n + 1] - ends[n] >= len(GOOD)]


@pytest.mark.slow
@MANY
@given(st.lists(st.integers(0, len(GOOD) * 2), max_size=6))
def test_lines_may_end_anywhere(cuts: list[int]) -> None:
    data = GOOD + GOOD
    ends = np.array(sorted({0, *cuts, len(data)}), np.int32)
    block = LineBlock(data + b"\n", ends, np.arange(len(ends) - 1, dtype=np.int64))
    same(block, TARGETS)
