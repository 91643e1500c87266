"""Texts of messy feeds, by setting: fast and exact pass agree, and both with Python's own readers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import CsvOptions, Target, TextForm
from sparkhaven.ingest.values.exact_values import from_text
from sparkhaven.ingest.values.instants import INSTANT_HIGH, INSTANT_LOW
from sparkhaven.ingest.values.text_forms import DatePattern, date_pattern
from sparkhaven.ingest.values.typed_columns import csv_texts
from sparkhaven.ingest.values.typed_rows import OutOfRange, Refusal
from tests.support.ingest.ingest_cases import PLENTY, target

QUICK = settings(max_examples=60, deadline=None)


def formed(kind: str, form: TextForm, **rest: Any) -> Target:
    """A column with a form."""
    far = rest.pop("far", None)
    return replace(target(kind, **rest), form=form, far=far)


def outcome(decoder: Any, lines: list[bytes], one: Target) -> Any:
    """Values by line number, and what was refused."""
    block = next(line_blocks([b"".join(line + b"\n" for line in lines)]))
    rejects = Rejects(PLENTY)
    rows = decoder.decode(block, "f", rejects)
    rows = rows[0] if isinstance(rows, tuple) else rows
    plain = rows.columns[0].view("int64") if one.column.type.name == "Instant" else rows.columns[0]
    bad = sorted((r.line, r.explanation, r.refusal.expected) for r in rejects.rows)
    return list(zip(rows.numbers.tolist(), map(repr, plain.to_pylist()), strict=True)), bad


def both_ways(one: Target, texts: list[str], *, quoted_null: bool = False) -> tuple[Any, Any]:
    """CSV and JSON of the same texts; each pass says the same."""
    lines = [('"' + text.replace('"', '""') + '"').encode() for text in texts]
    options = CsvOptions(header=False, names=("v",), quoted_null=quoted_null)
    csv = [outcome(CsvDecoder([one], [], options, compiled=compiled), lines, one) for compiled in (True, False)]
    assert csv[0] == csv[1]
    lines = [
        b'{"v":' + (text if text in ("1", "0", "true", "2.5") else json.dumps(text)).encode() + b"}" for text in texts
    ]
    found = [outcome(JsonDecoder([one], [], compiled=compiled), lines, one) for compiled in (True, False)]
    assert found[0] == found[1]
    return csv[0], found[0]


NUMBERS = st.one_of(
    st.integers(-(10**10), 10**10).map(lambda n: f"{n:,}"),
    st.floats(-1e9, 1e9).map(lambda x: f"{x:,.2f}"),
    st.sampled_from(
        ["", " ", " 7", "7\t", "1,000", "1,00", ",1", "1,", "1,2345", "1.000,5", "1'000", "0x1", "nan", "-1,234.5e3"]
    ),
    st.sampled_from(["1", "0", "true", "2.5", "١", "\u00a01", "1,000,000", "01,000", "1000,000", "+1,000", "null"]),
)
FORMS = st.builds(
    TextForm,
    trim=st.booleans(),
    quoted=st.booleans(),
    thousands=st.sampled_from(["", ",", ".", "'", " "]),
    decimal=st.sampled_from([".", ","]),
).filter(lambda form: form.thousands != form.decimal)


@pytest.mark.slow
@QUICK
@given(st.lists(NUMBERS, min_size=1, max_size=20), FORMS, st.sampled_from(["int", "long", "double", "float", "byte"]))
def test_numbers(texts: list[str], form: TextForm, kind: str) -> None:
    both_ways(formed(kind, form), texts)


@pytest.mark.slow
@QUICK
@given(st.lists(NUMBERS, min_size=1, max_size=20), FORMS)
def test_counts_of_time_units(texts: list[str], form: TextForm) -> None:
    both_ways(formed("Instant", replace(form, thousands="", decimal="."), unit="ms"), texts)


@pytest.mark.parametrize(
    ("trim", "quoted", "expected"), [(False, False, "False"), (False, True, "None"), (True, False, "None")]
)
def test_an_empty_text_is_a_word_unless_a_setting_makes_it_null(trim: bool, quoted: bool, expected: str) -> None:
    one = formed("Boolean", TextForm(trim=trim, quoted=quoted, true=("true",), false=("",)))
    _, found = both_ways(one, ["", "true"])
    assert found == ([(1, expected), (2, "True")], [])


@pytest.mark.slow
@QUICK
@given(
    st.lists(st.sampled_from(["1", "0", "t", "f", "yes", "no", "", " t", "T", "true", "2", "1.0"]), min_size=1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (("1", "t", "yes"), ("0", "f", "no")), (("true",), ("",))]),
)
def test_booleans(texts: list[str], trim: bool, quoted: bool, words: Any) -> None:
    yes, no = words or ((), ())
    one = formed("Boolean", TextForm(trim=trim, quoted=quoted, true=yes, false=no))
    (found, bad), _ = both_ways(one, texts)
    given_words = dict.fromkeys(yes or ("true", "True", "TRUE"), "True") | dict.fromkeys(no or ("false",), "False")
    cleaned = [text.strip() if trim else text for text in texts]
    null = [trim and not text for text in cleaned]
    expected = [
        (n, "None" if empty else given_words[text])
        for n, (text, empty) in enumerate(zip(cleaned, null, strict=True), 1)
        if empty or text in given_words
    ]
    assert found == expected
    assert len(bad) == len(texts) - len(expected)


@pytest.mark.slow
@QUICK
@given(st.lists(st.sampled_from(["a", " a ", "", " ", "\ta", "a b"]), min_size=1), st.sampled_from(["String", "char"]))
def test_strings(texts: list[str], kind: str) -> None:
    both_ways(formed(kind, TextForm(trim=True)), texts)


PATTERNS = [
    "%Y/%m/%d",
    "%b %d %Y",
    "%d %B %Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%d.%m.%y %H.%M.%S.%f",
    "%a, %d %b %Y %H:%M:%S %z",
    "%Y%m%dT%H%M%S",
    "%d%%%m%%%Y",
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_dates_by_pattern(pattern: str, data: st.DataObject) -> None:
    when = st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31), timezones=st.just(UTC))
    odd = st.sampled_from(["", "2013/02/30", "2013/2/3", "FEB 3 2013", "Feb 30 2013", "2013/02/03 ", "20130203T010203"])
    drawn = data.draw(st.lists(when.map(lambda at: at.strftime(pattern)) | odd, min_size=1, max_size=20))
    one = formed("Instant", TextForm(pattern=pattern), zone="UTC")
    (found, bad), in_json = both_ways(one, drawn)
    assert (found, bad) == in_json
    expected = []
    for number, text in enumerate(drawn, 1):
        try:
            at = datetime.strptime(text, pattern)
        except ValueError:
            continue
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        passed = at - datetime(1970, 1, 1, tzinfo=UTC)
        ns = ((passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds) * 1000
        expected.append((number, str(ns)))
    assert found == expected


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("%Y-%m", "lacks %d"),
        ("%Y %m %d %Q", "%Q is not known"),
        ("%Y %Y %m %d", "twice"),
        ("%Y %y %m %d", "two ways"),
        ("%Y %m %d %I", "half of it"),
        ("%Y %m %d %M", "minutes without hours"),
        ("%Y %m %d %", "% is not known"),
        ("", "lacks %Y or %y, %m or %b, %d"),
    ],
)
def test_patterns_that_say_no_date(pattern: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        DatePattern(pattern)


FAR = [
    "9999-12-31",
    "9999-12-31T23:59:59.999Z",
    "2263-01-01T00:00:00+05:00",
    "0001-01-01",
    "2262-04-11T23:47:16.854775807Z",
    "2262-04-11T23:47:16.854775808Z",
    "1677-01-01T00:00Z",
    "9999-02-30",
    "9999-13-01Z",
    "never",
    "2013-01-01T05:00:00Z",
    "2400-02-29",
    "2401-02-29",
]


@pytest.mark.slow
@pytest.mark.parametrize("far", [None, "null", "clamp"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_far_instants(far: Any, zone: str | None) -> None:
    one = formed("Instant", TextForm(), zone=zone, far=far)
    (found, _), in_json = both_ways(one, FAR * 20)
    assert found == in_json[0]
    strict = replace(one, far=None)
    expected = []
    for number, text in enumerate(FAR * 20, 1):
        value: Any = from_text(text, strict)
        if isinstance(value, OutOfRange) and far:
            value = None if far == "null" else INSTANT_HIGH if value.above else INSTANT_LOW
        if not isinstance(value, Refusal):
            expected.append((number, repr(value)))
    assert found == expected


def test_far_texts_do_not_go_to_the_exact_pass() -> None:
    texts = pa.array(["9999-12-31", "2013-01-01"] * 500)
    made, doubt = csv_texts(texts, formed("Instant", TextForm(), zone="UTC", far="null"))
    assert (doubt, made.null_count) == (None, 500)


def test_patterns_are_compiled_once() -> None:
    assert date_pattern("%Y/%m/%d") is date_pattern("%Y/%m/%d")


@pytest.mark.parametrize(
    ("pattern", "good", "short"),
    [
        ("%Y%m%d %H%M%S", ["20261120 012345"], ["20261120 12345", "20261120 1234", "2026112 012345", "2026120 012345"]),
        ("%Y%m%d", ["20261101"], ["2026111", "202611"]),
        ("%y%m%d%H%M", ["2611200930"], ["261120930", "26112093"]),
        ("%Y-%m-%d%H:%M", ["2026-11-0310:15"], ["2026-11-310:15"]),
        ("%Y-%m-%d %H:%M%S", ["2026-11-20 9:3005"], ["2026-11-20 9:305"]),
        ("%Y-%m-%d %I%M %p", ["2026-11-20 0930 AM"], ["2026-11-20 930 AM"]),
        ("20%y%m%d", ["20261120"], ["2026112"]),
        ("%Y-%m-%d0%H", ["2026-11-20003"], ["2026-11-2003"]),
        ("%d%m%Y", ["03112026"], ["3112026"]),
        ("%Y%m%d%H%M%S%f", ["20261120093000123", "20261120093000123456"], ["2026112093000123", "202611200930001234"]),
        ("%Y-%m-%d %H%M%S%f", ["2026-11-20 093000123456"], ["2026-11-20 093000123", "2026-11-20 93000123456"]),
        ("%Y-%m-%d %H%M%S%3f", ["2026-11-20 093000123"], ["2026-11-20 93000123", "2026-11-20 093000123456"]),
        ("%Y-%m-%d %H:%M:%S.%3f", ["2026-11-20 9:30:00.123"], ["2026-11-20 9:30:00.12"]),
        ("%Y-%m-%d %H:%M:%S%z", ["2026-11-20 9:30:5+0100"], []),
        ("%Y-%m-%d %z%H:%M", ["2026-11-20 +010009:30"], ["2026-11-20 +01009:30"]),
        ("%d%b%Y", ["3Nov2026"], []),
    ],
)
def test_numbers_that_adjoin_have_all_of_their_digits(pattern: str, good: list[str], short: list[str]) -> None:
    form = TextForm(pattern=pattern)
    for way in both_ways(formed("Instant", form, zone="UTC"), [*good, *short]):
        rows, bad = way
        assert [number for number, _ in rows] == list(range(1, len(good) + 1))
        assert [number for number, _, _ in bad] == list(range(len(good) + 1, len(good) + len(short) + 1))
