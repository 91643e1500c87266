"""Dates, times, instants and decimals that the compiled core reads word by word, at each of their boundaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.spec import Target
from tests.support.ingest.ingest_cases import PLENTY, target
from tests.support.ingest.odd_fields import block_of
from tests.support.ingest.one_way import Scanning, same

NEIGHBOURS = '/019:;.-+TZ \x7f\u00e9"'  # of digits and of separators, among them what ends the text
WIDE = "99999999999999999999999999999999999999"
NUMBERS = ["0", "0.0", "-0.000001", "12.5", "12.500001", "12.5000001", "00.5", ".5", "5.", "+1", "-", "1e2", "1.2.3"]
NUMBERS += [WIDE[:count] for count in range(7, 39)] + [f"-{WIDE[:count]}.{WIDE[:6]}" for count in (7, 8, 9, 15, 16, 32)]
NUMBERS += ["0" * count + "1" for count in (1, 8, 40, 120, 127, 128, 140)] + ["1." + "0" * 6, "1." + "0" * 7]


def taken(texts: list[str], one: Target) -> int:
    """How many values the scanner takes, which are those of the exact pass; it refuses the same ones."""
    return same(block_of([f'{{"v":{text}}}'.encode() for text in texts]), [one])


def changed(text: str) -> list[str]:
    """A text in quotes, with another character in each place; and ended or longer there."""
    places = range(len(text))
    texts = [text[:place] + other + text[place + 1 :] for place in places for other in NEIGHBOURS]
    return [f'"{one}"' for one in [text, *texts, *(text[:place] for place in places), text + "0", text + " "]]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("LocalDate", "2024-02-29"),
        ("LocalTime", "23:59:59.123456789"),
        ("LocalTime 3", "23:59:59.123000000"),
        ("LocalTime 0", "20:00"),
        ("Instant", "2024-02-29T23:59:59.123456789+19:59"),
        ("Instant", "2024-02-29 20:00-0530"),
        ("Instant", "2024-02-29T20+01"),
        ("Instant", "2199-12-31T23:59:59Z"),
        ("Instant", "1700-01-01T00:00:00.5Z"),
        ("BigDecimal 12,3", "-123456789.123"),
        ("BigDecimal 30,6", "-123456789012345678.123456"),
    ],
)
def test_each_character_of_a_text_counts(kind: str, text: str) -> None:
    assert taken([f'"{text}"'], target(kind)) == 1
    assert taken(changed(text), target(kind)) > 1


def test_instants_without_an_offset_are_taken_where_there_is_a_zone() -> None:
    one = target("Instant", zone="America/New_York")
    for text in ("2024-02-29T23:59:59.123", "2024-02-29 20:00", "2024-02-29T20", "2024-02-29"):
        assert taken(changed(text), one) > 1


def test_days_of_all_years() -> None:
    days = np.concatenate(
        [np.arange(f"{year:04}-{month:02}-27", 4, dtype="M8[D]") for year in range(1, 9999) for month in (2, 12)]
    )
    lines = [f'{{"v":"{day}"}}'.encode() for day in days.astype(str).tolist()]
    decoder, rejects = Scanning([target("LocalDate")], ()), Rejects(PLENTY)
    rows = decoder.decode(block_of(lines), "f", rejects)
    assert decoder.accepted == len(days) and rows.columns[0].equals(pa.array(days))


@pytest.mark.parametrize("year", ["0001", "1900", "2000", "2023", "2024", "2100", "9999"])
def test_days_that_are_none(year: str) -> None:
    days = [f'"{year}-{month:02}-{day:02}"' for month in range(14) for day in (0, 1, 28, 29, 30, 31, 32)]
    assert taken(days, target("LocalDate")) == sum(map(_is_day, days))


def test_days_of_the_year_0_go_the_exact_way() -> None:
    decoder, rejects = Scanning([target("LocalDate")], ()), Rejects(PLENTY)
    rows = decoder.decode(block_of([b'{"v":"0000-02-29"}', b'{"v":"0000-02-30"}']), "f", rejects)
    assert (decoder.accepted, rows.columns[0].view(pa.int32()).to_pylist(), rejects.bad) == (0, [-719_469], 1)


def _is_day(text: str) -> bool:
    try:
        return str(np.datetime64(text.strip('"'))) == text.strip('"')
    except ValueError:
        return False


@pytest.mark.parametrize("kind", ["18,6", "19,6", "30,6", "38,6", "39,6", "50,6", "76,6"])
def test_decimals_of_any_precision(kind: str) -> None:
    one = target(f"BigDecimal {kind}")
    assert taken([text for number in NUMBERS for text in (number, f'"{number}"')], one) > len(NUMBERS) / 2
    most = "9" * (int(kind[:2]) - 6) + ".999999"
    decoder = Scanning([one], ())
    rows = decoder.decode(block_of([f'{{"v":{sign}{most}}}'.encode() for sign in ("", "-")]), "f", Rejects(PLENTY))
    assert decoder.accepted == 2
    assert [f"{value:f}" for value in rows.columns[0].to_pylist()] == [most, f"-{most}"]
