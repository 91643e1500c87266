"""Random tables to JSON and CSV: what ``schema infer`` and ``new`` write takes every row, and keeps every value."""

from __future__ import annotations

import csv
import io
import json
import math
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.inference.fitting import fit_schema
from sparkhaven.ingest.inference.proposal import NULL_TEXTS, propose
from sparkhaven.ingest.inference.texts import SchemaWishes, StreamWishes, schema_text, stream_text
from sparkhaven.jobs.settings.feed_part import feed_part
from sparkhaven.jobs.settings.stream_file import parse_stream
from sparkhaven.jobs.settings.stream_schema import checked_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.ingest.inferring import NOW, decoded

ZONE = "Europe/Berlin"
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)
INSTANTS = st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat)
JSON_VALUES: tuple[st.SearchStrategy[Any], ...] = (
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.one_of(st.integers(-9, 9), st.floats(-9, 9)),
    st.booleans(),
    TEXTS,
    INSTANTS,
    st.sampled_from(["B", "S"]),
    st.lists(st.one_of(st.integers(), TEXTS), max_size=3),
    st.one_of(st.integers(), TEXTS, st.booleans(), st.lists(st.booleans(), max_size=2)),
    st.dictionaries(TEXTS, st.integers(-9, 9), max_size=3),
    st.integers(0, 2**40),
    st.integers(-(2**80), 2**80),
    st.dates().map(date.isoformat),
    st.times().map(time.isoformat),
    st.lists(st.booleans(), max_size=3),
    st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=3),
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=3),
    st.lists(TEXTS, max_size=3),
)
NAMES = st.one_of(st.sampled_from(["v", "time", "id", "Date", "a.b", "ts_ms", "x y"]), TEXTS)
CSV_VALUES: tuple[st.SearchStrategy[str], ...] = (
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["true", "false"]),
    TEXTS,
    INSTANTS,
    st.sampled_from(["NA", "1", "2"]),
    st.integers(0, 99).map(lambda n: f" {n:,}"),
)


@st.composite
def tables(draw: Callable[[Any], Any], kinds: tuple[st.SearchStrategy[Any], ...]) -> list[dict[str, Any]]:
    """Rows with the same fields, each field of one kind, with nulls."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    chosen = [draw(st.sampled_from(kinds)) for _ in names]
    nulls = [draw(st.booleans()) for _ in names]
    row = st.tuples(*(st.one_of(st.none(), kind) if null else kind for kind, null in zip(chosen, nulls, strict=True)))
    return [dict(zip(names, values, strict=True)) for values in draw(st.lists(row, min_size=1, max_size=12))]


def through(directory: Path, source: Path) -> tuple[dict[str, Any], dict[str, list[Any]], int]:
    """Columns by field, their values, and how many rows were bad, with what infer and new make of a file."""
    fs = Fs()
    part = feed_part(fs, str(source), {})
    proposal = propose(part.sample(fs, 10_000), zone=ZONE)
    xml = schema_text(TableName("T", "T"), proposal, SchemaWishes(zone=ZONE))
    schema = parse_schema(xml.encode(), "T.T.schema")
    assert schema.findings == ()
    (directory / "T.T.schema").write_text(xml, encoding="utf-8")
    fit = fit_schema(schema.schema, part.sample(fs, 10_000), {}, ZONE)
    text = stream_text(
        schema.schema, part.beside(directory), fit, StreamWishes("s", "T.T.schema", ZONE, round(NOW * 1e9))
    )
    settled = parse_stream(tomllib.loads(text), directory / "s.toml", {}, fs)
    columns, bad, _ = decoded(settled, checked_schema(fs, settled))
    return {c.source: c for c in proposal.stored}, columns, len(bad)


def expected(value: Any, column: Any) -> Any:
    """The value of a field as its column has it, by a parse of its own."""
    kind, unit = column.reading.type, column.reading.unit
    if value is None or (value == "" and kind != "String"):
        return None
    if kind == "String":
        return value if isinstance(value, str) else json.dumps(value)
    if kind.endswith("[]"):
        return [float(element) if kind == "double[]" else element for element in value]
    if kind in ("LocalDate", "LocalTime"):
        return (date if kind == "LocalDate" else time).fromisoformat(value)
    if kind == "BigInteger":
        return str(int(value))
    if kind == "Instant" and unit == "iso":
        at = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)
        return ((at.days * 86_400 + at.seconds) * 10**6 + at.microseconds) * 1000
    if kind == "Instant":
        return int(Decimal(str(value)) * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit])
    if kind == "Boolean":
        return value if isinstance(value, bool) else value in ("true", "True", "TRUE")
    number = value.strip().replace(",", "") if isinstance(value, str) else value
    return float(number) if kind == "double" else int(Decimal(number))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right and type(left) is type(right))


def field_values(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Values by the name that ``from`` has."""
    return {name.replace(".", "\\."): [row[name] for row in rows] for name in rows[0]}


@pytest.mark.slow
@given(tables(JSON_VALUES))
@settings(max_examples=150, deadline=None)
def test_json(rows: list[dict[str, Any]]) -> None:
    rows = [{"n": 7, **row} for row in rows]
    with TemporaryDirectory() as place:
        source = Path(place) / "a.json"
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        columns, values, bad = through(Path(place), source)
    assert bad == 0
    for name, given_values in field_values(rows).items():
        if name in columns:  # else it was gone into, or cannot be named
            got = values[columns[name].name]
            wanted = [expected(value, columns[name]) for value in given_values]
            assert all(map(same, wanted, got)), (name, wanted, got)


@pytest.mark.slow
@given(tables(CSV_VALUES))
@settings(max_examples=100, deadline=None)
def test_csv(rows: list[dict[str, Any]]) -> None:
    names = [name for name in rows[0] if name and not set(name) & set("\n\r")] or ["v"]
    rows = [{"n": 7, **{name: row.get(name) for name in names if name != "n"}} for row in rows]
    made = io.StringIO()
    writer = csv.DictWriter(made, fieldnames=list(rows[0]), quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with TemporaryDirectory() as place:
        source = Path(place) / "a.csv"
        source.write_text(made.getvalue(), encoding="utf-8")
        columns, values, bad = through(Path(place), source)
    assert bad == 0
    for name in rows[0]:
        column = columns[name]
        texts = [None if row[name] in (None, "") else str(row[name]) for row in rows]
        for text, got in zip(texts, values[column.name], strict=True):
            if text not in NULL_TEXTS:  # which may have been taken for nulls
                assert same(expected(text, column), got), (name, text, got)
            else:
                assert got in (None, text)
