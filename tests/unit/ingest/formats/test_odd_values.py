"""One odd value among many: it takes no neighbour along to the exact pass, and no sign or day is lost."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import LineBlock, line_blocks
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder, too_deep
from sparkhaven.ingest.spec import CsvOptions, Target
from sparkhaven.ingest.values.exact_values import from_text
from sparkhaven.ingest.values.text_forms import iso_instants
from sparkhaven.ingest.values.typed_rows import Refusal
from tests.support.ingest.ingest_cases import PLENTY, target

AMONG = 300


def block_of(lines: list[bytes]) -> LineBlock:
    """The lines as one block."""
    return next(line_blocks([b"".join(line + b"\n" for line in lines)]))


@pytest.mark.slow
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("clock", ["T05:00:00Z", "", " 23:59:59.123456789", "T05+01"])
def test_every_day_beside_a_bad_one_is_decided_at_once(zone: str | None, clock: str) -> None:
    first = date(1700, 1, 1)
    days = [first + timedelta(days=n) for n in range(0, 182_000, 7)] + [
        date(year, month, day)
        for year in (1700, 1704, 1899, 1900, 2000, 2012, 2013, 2100, 2199)
        for month, day in ((1, 31), (2, 28), (4, 30), (12, 31), (2, 1))
    ]
    leap = [f"{year}-02-29" for year in range(1700, 2200) if year % 4 == 0 and (year % 100 or year % 400 == 0)]
    good = [f"{day}{clock}" for day in [*map(str, days), *leap]]
    bad = [f"{year}-02-29{clock}" for year in (1700, 1800, 1900, 2100, 2013)]
    bad += [f"2013-{end}{clock}" for end in ("02-30", "04-31", "06-31", "09-31", "11-31", "13-01", "00-10", "01-32")]
    one = target("Instant", zone=zone)
    texts = pa.array([*good, *bad])
    array, doubt = iso_instants(texts, one)
    assert doubt is not None
    zoned = zone is not None or clock.endswith(("Z", "1"))
    gaps = 20 if zoned and zone else 0  # midnights that a zone skipped are left to the exact pass
    assert doubt[len(good) :].all()
    assert doubt[: len(good)].sum() <= (gaps if zoned else len(good))
    for row in np.flatnonzero(~doubt).tolist()[::50]:
        assert from_text(texts[row].as_py(), one) == array[row].value
    assert all(isinstance(from_text(text, one), Refusal) for text in bad)


@pytest.mark.parametrize("text", ["2013-01-28T05:00:00.25+01:00", "1013-12-10 23:59:09Z", "0999-10-01T10:10"])
def test_times_with_any_character_in_any_place_are_those_of_the_exact_pass(text: str) -> None:
    texts = [text[:place] + chr(code) + text[place + 1 :] for place in range(len(text)) for code in range(1, 256)]
    one = target("Instant", zone="UTC")
    array, doubt = iso_instants(pa.array(texts), one)
    for row in range(len(texts)) if doubt is None else np.flatnonzero(~doubt).tolist():
        assert from_text(texts[row], one) == array[row].value, texts[row]


def _looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the lines that come to the exact pass."""
    seen: list[int] = []
    values_of = JsonDecoder.values_of

    def noted(self: JsonDecoder, line: bytes, file: str, number: int, rejects: Rejects) -> Any:
        seen.append(number)
        return values_of(self, line, file, number, rejects)

    monkeypatch.setattr(JsonDecoder, "values_of", noted)
    return seen


@pytest.mark.parametrize("odd", [b'"2013-02-30T00:00:00Z"', b'"soon"', b'"1600-01-01T00:00Z"'])
def test_one_bad_day_sends_its_own_line_to_the_exact_pass(monkeypatch: pytest.MonkeyPatch, odd: bytes) -> None:
    seen = _looked_at(monkeypatch)
    lines = [b'{"v":"2013-%02d-%02dT05:00:00Z"}' % (1, 25 + n % 7) for n in range(AMONG)]
    lines[7] = b'{"v":%s}' % odd
    rejects = Rejects(PLENTY)
    rows = JsonDecoder([target("Instant")], []).decode(block_of(lines), "f", rejects)
    assert (seen, len(rows), rejects.bad) == ([8], AMONG - 1, 1)


ZEROS = [b"-0", b"-0.0", b"-0e5", b"0", b"-0E-3", b"0.0", b"-1e-400"]
Decode = Callable[[Target, list[bytes]], pa.Array]


def _json(one: Target, texts: list[bytes], exact: bool) -> pa.Array:
    lines = [b'{"v":%s,"w":"a-0,"}' % text for text in texts]
    return JsonDecoder([one], [], compiled=not exact).decode(block_of(lines), "f", Rejects(PLENTY)).columns[0]


def _inner(one: Target, texts: list[bytes], exact: bool) -> pa.Array:
    deep = Target(one.column, "a.v", one.unit, None, None, True)
    lines = [b'{"a":{"v":%s}}' % text for text in texts]
    return JsonDecoder([deep], [], compiled=not exact).decode(block_of(lines), "f", Rejects(PLENTY)).columns[0]


def _csv(one: Target, texts: list[bytes], exact: bool) -> pa.Array:
    decoder = CsvDecoder([one], [], CsvOptions(header=False, names=("v",)), compiled=not exact)
    return decoder.decode(block_of(texts), "f", Rejects(PLENTY))[0].columns[0]


@pytest.mark.parametrize("decode", [_json, _inner, _csv])
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("exact", [False, True])
def test_zero_keeps_its_sign(decode: Callable[[Target, list[bytes], bool], pa.Array], kind: str, exact: bool) -> None:
    found = decode(target(kind), ZEROS * 50, exact).to_numpy()
    assert (found == 0).all()
    assert np.signbit(found).tolist() == [text.startswith(b"-") for text in ZEROS * 50]


def test_open_quotes_and_escapes_are_passed_once() -> None:
    """The pattern is possessive: what it has matched it never gives back, so its time is that of the line."""
    from sparkhaven.ingest.formats.json.json_rows import _STRING

    line = b'{"v":"' + b'\\"' * 3000 + b"[" * 600
    assert "*+" in _STRING.pattern.decode()
    assert [m.span() for m in re.finditer(_STRING, line)] == [(1, 4), (5, len(line))]
    assert not too_deep(line)
    assert not too_deep(line + b"\\")
    assert too_deep(b"[" * 501)


@pytest.mark.slow
def test_inner_fields_that_all_differ_take_no_room_of_their_own() -> None:
    """One mask for each name would be the square of the lines."""
    count = 20_000
    deep = Target(target("long").column, "a.v", "iso", None, None, True)
    lines = [b'{"a":{"v":%d,"w%d":0}}' % (n, n) for n in range(count)]
    block, rejects = block_of(lines), Rejects(PLENTY)
    tracemalloc.start()
    rows = JsonDecoder([deep], []).decode(block, "f", rejects)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(rows), len(rejects.ignored), rejects.ignored["a.w7"]) == (count, count, 1)
    assert peak < 2000 * count


def test_short_lines_come_in_blocks_of_bounded_length() -> None:
    data = b"{}\n" * 1000 + b"x" * 500 + b"\n" + b"{}\n" * 100
    sizes, numbers, long = [], [], []
    for block in line_blocks([data[at : at + 64] for at in range(0, len(data), 64)], 200, 300, lines=30):
        sizes.append(len(block))
        numbers += block.numbers.tolist()
        long += [line.number for line in block.too_long]
    assert max(sizes) <= 30
    assert (long, numbers) == ([1001], [*range(1, 1001), *range(1002, 1102)])
