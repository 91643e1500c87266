"""Instants as text."""

from __future__ import annotations

import pytest

from sparkhaven.store.instants import parse_instant


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2017-08-04T13:30:00.000000001Z", 1501853400000000001),
        ("2013-01-01T05:00-05:00", 1357034400000000000),
        ("2013-01-01 05:00:00.25+0100", 1357012800250000000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1677-09-21T00:12:43.145224193Z", -(2**63) + 1),
        ("2262-04-11T23:47:16.854775807Z", 2**63 - 1),
    ],
)
def test_parse(text: str, nanos: int) -> None:
    assert parse_instant(text) == nanos


@pytest.mark.parametrize(
    "text",
    [
        "2013-01-01",
        "2013-01-01T00:00:00",
        "2013-13-01T00:00:00Z",
        "2013-01-01T24:61:00Z",
        "1677-09-21T00:12:43.145224192Z",
        "2262-04-11T23:47:16.854775808Z",
        "2013-01-01T00:00:00.1234567891Z",
        " 2013-01-01T00:00:00Z",
        "٢013-01-01T00:00:00Z",
        "",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)
