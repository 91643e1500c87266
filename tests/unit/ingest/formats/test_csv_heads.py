"""A first line of CSV that is a row is told from a header."""

from __future__ import annotations

import pytest

from sparkhaven.ingest.formats.csv.csv_records import doubtful_header, kind_of

ROWS = {
    "AAPL,268.5,100,2026-11-20T14:30:00Z": ["IBM,307.25,50,2026-11-20T14:30:01Z", "MSFT,478,200,2026-11-20T14:30:02Z"],
    "AAPL,100": ["IBM,50", "MSFT,200"],
    "1.5": ["2.5", "3"],
    "17": ["4", "9"],
    "2026-11-20,5,a": ["2026-11-21,7,b"],
    "20/11/2026 10:00,x": ["21/11/2026 11:00,y"],
    "10:30:00,-5": ["10:31:00,6"],
    "AAPL,NYSE": ["IBM,NYSE", "AAPL,LSE"],
    "true,x": ["false,y", "true,z"],
    "5,,a": ["7,,b", "9,1,c"],
    "AAPL,268.5": [],
    "1e5,NaN,b": ["2e5,1,c"],
    "1,1,a": ["7,9,b"],
}
HEADERS = {
    "sym,price,qty,at": ["AAPL,268.5,100,2026-11-20T14:30:00Z"],
    "country,2019,2020,2021": ["FR,1.5,2,3", "DE,4,5,6"],
    "0,1,2": ["5,6,7", "8,9,10"],
    "0": ["5", "6"],
    ",0,1": ["0,5,6", "1,8,9"],
    "date,30,60,90": ["2026-11-20,1.5,2,3"],
    "country,2020-01-22,2020-01-23": ["FR,5,6"],
    "Province,Lat,1/22/20,1/23/20": ["X,1.5,2,3"],
    "t,y": ["1,2", "3,4"],
    "no,n": ["1,2"],
    "a,b": [],
    "a,b,": ["x,y,", "z,w,"],
    "sym,exchange": ["sym,exchange", "AAPL,NYSE"],
    "name,2024": ["x,1", "y,2"],
}
DOUBTFUL = {
    "sym,5.5,x": ["A,6.5,3", "B,7,4"],
    "100,200,90": [],
    "A,A": ["x,y", "z,w"],
    "AAPL,x1": ["AAPL,x2", "IBM,x3"],
    "7,x": ["a1,y", "b,z"],
}


def split(text: str) -> list[str]:
    return text.split(",")


@pytest.mark.parametrize("line", ROWS)
def test_a_row_is_no_header(line: str) -> None:
    found = doubtful_header(split(line), list(map(split, ROWS[line])))
    assert found is not None and found.certain


@pytest.mark.parametrize("line", HEADERS)
def test_a_header_is_one(line: str) -> None:
    assert doubtful_header(split(line), list(map(split, HEADERS[line]))) is None


@pytest.mark.parametrize("line", DOUBTFUL)
def test_what_may_be_either_is_only_told(line: str) -> None:
    found = doubtful_header(split(line), list(map(split, DOUBTFUL[line])))
    assert found is not None and not found.certain


def test_kinds() -> None:
    texts = {
        "number": ["1", "-1.5", "1,234.50", "1e-7", ".5", "+3"],
        "instant": ["2026-11-20", "20.11.2026", "1/2/26", "10:30", "2026-11-20 10:30:00.123", "2026-11-20T10:30+01:00"],
        "boolean": ["true", "False"],
        "text": ["AAPL", "1M", "v1.2.3", "a1", "10:30x", "e5", ".", "y"],
        "nothing": ["", " ", "NA", "null", "\\N"],
    }  # fmt: skip
    assert {kind: {kind_of(text) for text in listed} for kind, listed in texts.items()} == {k: {k} for k in texts}
