"""Fields of every kind for columns of every type, good and bad; and what decoding made of them, for comparison."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import LineBlock, line_blocks
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.typed_rows import TypedRows
from tests.support.ingest.ingest_cases import target

QUICK = settings(max_examples=40, deadline=None)
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

NUMBERS = st.sampled_from(
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
TEXTS = st.sampled_from(
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
WORDS = st.sampled_from(["true", "false", "null", "NaN", "Infinity", "-Infinity", "nan", "inf"])
_NESTED = st.sampled_from(["{}", "[]", '{"a":1}', "[1,2]", "[1,]", '{"x":NaN}', '[",]"]', '{"a":1,}'])


@st.composite
def _string(draw: st.DrawFn) -> str:
    text = draw(TEXTS | st.text(max_size=6).filter(lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t)))
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


FIELD = st.one_of(NUMBERS, _string(), WORDS, _NESTED)
SUITED = {
    "a": NUMBERS,
    "h": _string(),
    "i": _string(),
    "j": _string(),
    "l": _string(),
    "g": _string(),
    "f": st.sampled_from(["true", "false"]),
}


def block_of(lines: Sequence[bytes]) -> LineBlock | None:
    return next(line_blocks([b"".join(line + b"\n" for line in lines)]), None)


def typed(rows: TypedRows, targets: Sequence[Target]) -> list[tuple[int, tuple[Any, ...]]]:
    columns = []
    for one, array in zip(targets, rows.columns, strict=True):
        kind = array.type
        if isinstance(array, pa.DictionaryArray):
            texts = array.dictionary.to_pylist()
            assert len(set(texts)) == len(texts), "each text once"
            kind = array.type.value_type
        assert kind == one.column.type.arrow
        whole = {"Instant": "int64", "LocalDate": "int32"}.get(one.column.type.name)  # Python has fewer of them
        plain = array if whole is None else array.view(whole)
        columns.append([bits(value) for value in plain.to_pylist()])
    return list(zip(rows.numbers.tolist(), zip(*columns, strict=True), strict=True))


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def rejected(rejects: Rejects) -> list[tuple[Any, ...]]:
    return sorted((r.line, r.column or "", r.explanation, r.refusal.expected, r.value, r.payload) for r in rejects.rows)
