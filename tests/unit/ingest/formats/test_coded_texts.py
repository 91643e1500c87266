"""Dates, times and decimals in JSON and CSV: what the compiled scanner takes is what the exact pass makes of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder, scanner_for
from tests.support.ingest.coded_doors import csv_files, json_files
from tests.support.ingest.ingest_cases import PLENTY, target

DATES = ["2024-02-29", "2023-02-29", "1900-02-29", "0001-01-01", "0000-01-01", "9999-12-31", "1582-10-10", "1699-12-31"]
TIMES = ["00:00", "23:59", "24:00", "12:60", "13:30:00", "13:30:60", "13:30:00.", "13:30:00.5", "13:30:00.123456789"]
TIMES += ["13:30:00.1234567890", "13:30:00.000001", "13:30:00.001000000", "1:30", "13:3", "13:30:0", "13.30"]
PLAIN = ["0", "-0", "1", "-1", "1.5", "1.50", "1.500", "1.505", "-1.005", "99.99", "9999.99", "10000", "-9999.99"]
PLAIN += ["1e2", "1E-2", "1e-3", "15e-1", "0e99", "0.0", "-0.00", "1e99999", "123456789012345678901234567890"]
PLAIN += [
    "0.1000000000000000000000000",
    "9" * 38,
    "9" * 39,
    "9" * 76,
    "9" * 77,
    f"{'9' * 30}.{'9' * 8}",
    "0." + "0" * 90,
]
TEXTS = [
    "+1",
    "007",
    "-007.5",
    ".5",
    "5.",
    "+",
    "-",
    "",
    " 1",
    "1 ",
    "1_0",
    "0x1",
    "1e",
    "NaN",
    "Infinity",
    "1,5",
    "--1",
]
NUMBERS = [
    "BigDecimal 6,2",
    "BigDecimal 18,6",
    "BigDecimal 19,0",
    "BigDecimal 38,8",
    "BigDecimal 39,8",
    "BigDecimal 76,76",
]
KINDS = {
    **dict.fromkeys(["LocalDate", "LocalDate Compact"], (DATES, False)),
    **dict.fromkeys(["LocalTime", "LocalTime 6", "LocalTime 3", "LocalTime 0"], (TIMES, False)),
    **dict.fromkeys([*NUMBERS, "BigDecimal 6,2,allowRounding", "BigInteger 5", "BigInteger 40"], (PLAIN, True)),
}


def texts_of(kind: str) -> list[str]:
    """Values, and such with one character changed."""
    rng, (values, _) = random.Random(kind), KINDS[kind]
    found = [*values, *TEXTS]
    for value in values * 20:
        place = rng.randrange(len(value))
        found.append(value[:place] + rng.choice("0123456789:-.+eTZ ") + value[place + rng.randrange(2) :])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_json(tmp_path: Path, kind: str) -> None:
    """``json_files`` compares both ways; numbers are also given as such where JSON has them."""
    texts = [json.dumps(text) for text in texts_of(kind)]
    if KINDS[kind][1]:
        texts += PLAIN
    json_files(tmp_path, kind, [*texts, '"\\u0031"', "null", "true", "[1]", "{}"])


@pytest.mark.parametrize("kind", KINDS)
def test_csv_takes_the_texts_of_json(tmp_path: Path, kind: str) -> None:
    texts = [text for text in texts_of(kind) if text]  # an empty field is null
    given = [json.dumps(text) for text in texts]
    assert repr(csv_files(tmp_path, kind, texts)) == repr(json_files(tmp_path, kind, given))


MOMENTS = ["2024-02-29T00:00Z", "2024-02-29 13:30:00.123456789+01:00", "1677-09-21T00:12:43.145224193Z", "1970-01-01"]
MOMENTS += [
    "1677-09-21T00:12:43.145224192Z",
    "2262-04-11T23:47:16.854775807Z",
    "9999-12-31T00:00Z",
    "2024-02-30T00:00Z",
]
MOMENTS += ["2024-02-29T00:00:00", "", "é", " 2024-02-29T00:00Z", "2024-02-29T24:00Z"]


def test_arrays_of_instants(tmp_path: Path) -> None:
    """``json_files`` compares both ways; each odd text alone, and arrays of any."""
    rng = random.Random(3)
    arrays = [[text] for text in MOMENTS] + [[None, MOMENTS[0], None, MOMENTS[1]], []]
    arrays += [[rng.choice([None, *MOMENTS[:3]]) for _ in range(rng.randrange(5))] for _ in range(100)]
    arrays += [[rng.choice([None, *MOMENTS]) for _ in range(rng.randrange(5))] for _ in range(100)]
    texts = [json.dumps(one) for one in arrays] + [json.dumps(MOMENTS[:1], indent=1).replace("\n", " ")]
    results = json_files(
        tmp_path, "Instant[]", [*texts, '["\\u0032024-02-29T00:00Z"]', "[1]", "[[]]", "{}", '"x"', "null"]
    )
    assert results[0] == [1_709_164_800 * 10**9] and results[-1] is None


USUAL = {
    "LocalDate": ['"2024-02-29"', '"0001-01-01"', "null"],
    "LocalTime 6": ['"13:30"', '"13:30:00.000001"', "null"],
    "BigDecimal 18,6": ["1.5", '"-1.5"', "-999999999999.999999", "null"],
    "BigDecimal 50,10": ["1.5", '"-1.5"', "-" + "9" * 40 + ".5", "null"],
}


@pytest.mark.parametrize("kind", USUAL)
def test_the_scanner_takes_what_is_usual(kind: str) -> None:
    """Without the exact pass, which is slow."""
    one = target(kind, "v")
    scanner = scanner_for([one], [("v",)])
    assert scanner is not None
    lines = [f'{{"v":{text}}}'.encode() for text in USUAL[kind]]
    block = framed_block(lines, np.arange(len(lines)))
    assert scanner.scan(block).lines.tolist() == [*range(len(lines))]
    exact = JsonDecoder([one], (), compiled=False).decode(block, "f", Rejects(PLENTY))
    assert str(scanner.scan(block).columns[0]) == str(exact.columns[0])
