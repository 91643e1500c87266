"""Rows to locations, bounds, budgets, and settings that do not fit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.bad_rows import BadRow, bad_row, check_budget
from sparkhaven.ingest.spec import BadRowBudget, Clock, ColumnSpec, InternalRule, StreamSpec, ValueRule
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.errors import ErrorBudgetExceeded, InvalidNameError, SettingsError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.ingest.ingest_cases import NOW_NS, decode, schema, stream, values, write

BY_SYM = InternalRule("column", "sym")
BY_DAY = ValueRule("at", zone="America/New_York")
TABLE = schema(sym="String", at="Instant", n="int")


def _keys(routed: list[Any]) -> dict[LocationKey, list[int]]:
    found: dict[LocationKey, list[int]] = {}
    for item in routed:
        found.setdefault(item.key, []).extend(item.batch.column("n").to_pylist())
    return found


@pytest.mark.parametrize("repeat", [1, 100])
def test_rows_go_to_their_locations_in_order(tmp_path: Path, repeat: int) -> None:
    rows = [
        {"sym": "EWR", "at": "2013-01-01T05:00:00Z"},
        {"sym": "JFK", "at": "2013-01-01T05:00:00Z"},
        {"sym": "EWR", "at": "2013-01-01T04:59:59Z"},
        {"sym": "a/b .é", "at": "2013-01-01T05:00:00Z"},
        {"sym": "EWR", "at": "2013-01-01T05:00:00Z"},
    ] * repeat
    split = write(tmp_path / "a.json", [{**row, "n": n} for n, row in enumerate(rows)])
    routed, rejects = decode(split, stream(internal=BY_SYM, value=BY_DAY), TABLE)
    assert rejects.bad == 0
    keys = [("EWR", "2013-01-01"), ("JFK", "2013-01-01"), ("EWR", "2012-12-31"), ("a%2Fb%20.%C3%A9", "2013-01-01")]
    expected: dict[LocationKey, list[int]] = {LocationKey(*key): [] for key in keys}
    for n in range(len(rows)):
        expected[LocationKey(*keys[n % 5 if n % 5 < 4 else 0])].append(n)
    assert _keys(routed) == expected
    assert [item.key for item in routed] == list(expected)
    assert routed[0].batch.schema.names == ["sym", "at", "n"]


def test_hours_and_a_repeated_hour(tmp_path: Path) -> None:
    rule = ValueRule("at", zone="America/New_York", format="yyyy-MM-dd-HH")
    rows = [{"at": at, "n": 0} for at in ("2013-11-03T05:30:00Z", "2013-11-03T06:30:00Z", "2013-11-03T07:30:00Z")]
    routed, _ = decode(write(tmp_path / "a.json", rows), stream(value=rule, clock=Clock("batch")), TABLE)
    assert [(item.key.value, item.batch.num_rows) for item in routed] == [("2013-11-03-01", 2), ("2013-11-03-02", 1)]


def test_rows_without_a_key_are_bad(tmp_path: Path) -> None:
    good = {"sym": "A", "at": "2013-01-01T05:00:00Z", "n": 1}
    bad = [{**good, "sym": None}, {**good, "sym": ""}, {**good, "sym": "x" * 201}, {**good, "at": None}]
    late = [{**good, "at": "2012-12-02T04:59:59Z"}, {**good, "at": "2013-01-31T05:00:01Z"}]
    split = write(tmp_path / "a.json", [good, *bad, *late, {**good, "at": "2013-01-31T05:00:00Z"}])
    routed, rejects = decode(split, stream(internal=BY_SYM, value=BY_DAY), TABLE)
    assert [item.batch.num_rows for item in routed] == [1, 1]
    assert [(row.line, row.column, row.explanation) for row in rejects.rows] == [
        (2, "sym", "null internal partition"),
        (3, "sym", "cannot name an internal partition"),
        (4, "sym", "cannot name an internal partition"),
        (5, "at", "null partition value"),
        (6, "at", "instant out of bounds"),
        (7, "at", "instant out of bounds"),
    ]
    assert rejects.rows[4].value == "2012-12-02T04:59:59.000000000Z"
    assert "2012-12-02T05:00:00.000000000Z to 2013-01-31T05:00:00.000000000Z" in rejects.rows[4].refusal.expected
    assert (rejects.rows[0].payload or b"").startswith(b'{"sym": null')


def test_clock_of_the_file_is_its_newest_instant(tmp_path: Path) -> None:
    rows = [{"at": f"2001-{month:02}-01T00:00:00Z", "n": month} for month in (3, 1, 4)]
    spec = stream(value=ValueRule("at"), clock=Clock("batch"))
    routed, rejects = decode(write(tmp_path / "a.json", rows), spec, TABLE)
    assert [row.line for row in rejects.rows] == [1, 2]
    assert list(_keys(routed).values()) == [[4]]


def test_wall_clock(tmp_path: Path) -> None:
    spec = stream(value=ValueRule("at"), clock=Clock("wall"))
    split = write(tmp_path / "a.json", [{"at": "2013-01-15T00:00:00Z"}, {"at": "2014-01-15T00:00:00Z"}])
    routed, rejects = decode(split, spec, TABLE)  # the clock of these tests stands at 2013-01-01
    assert (len(routed), rejects.bad) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [("int", -7, "-7"), ("Boolean", True, "true"), ("char", "/", "%2F"), ("String", "a", "a")],
)
def test_internal_partition_of_other_types(tmp_path: Path, kind: str, value: Any, name: str) -> None:
    spec = stream(internal=InternalRule("column", "k"))
    routed, _ = decode(write(tmp_path / "a.json", [{"k": value}]), spec, schema(k=kind))
    assert routed[0].key.internal == name


def test_routing_by_fields_that_are_not_stored(tmp_path: Path) -> None:
    spec = stream(internal=InternalRule("column", "venue"), value=ValueRule("t", unit="ms"), ignore=("venue",))
    rows = [{"venue": "N", "t": 1357016400000, "n": 1}]
    routed, rejects = decode(write(tmp_path / "a.json", rows), spec, schema(n="int"))
    assert (routed[0].key, rejects.rows) == (LocationKey("N", "2013-01-01"), [])
    assert routed[0].batch.schema.names == ["n"]


def test_position_as_columns(tmp_path: Path) -> None:
    metas = {"f": "file", "l": "line", "t": "timestamp", "r": "receive_time"}
    spec = stream(*(ColumnSpec(name, meta=meta) for name, meta in metas.items()), internal=InternalRule("meta", "file"))  # type: ignore[arg-type]
    split = write(tmp_path / "a.json", ['{"v":1}', "", '{"v":2}'])
    routed, _ = decode(split, spec, schema(f="String", v="int", l="long", t="Instant", r="Instant"))
    assert values(routed, "f") == [split.path] * 2
    assert values(routed, "l") == [1, 3]
    assert values(routed, "t") == [split.mtime_ns] * 2
    assert values(routed, "r") == [NOW_NS] * 2
    assert routed[0].key.internal == "a.json"


def test_budget_of_a_batch_names_the_first_rows(tmp_path: Path) -> None:
    split = write(tmp_path / "a.json", ['{"v":1}'] * 300 + ['{"v":"x"}'] * 3)
    with pytest.raises(ErrorBudgetExceeded) as caught:
        decode(split, stream(budget=BadRowBudget(0)), schema(v="int"))
    text = str(caught.value)
    assert "Nothing of this batch was committed" in text
    line = f'{split.path} line 301, column v: wrong JSON type (string), found "x", expected a number'
    assert line in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_budget_over_several_splits() -> None:
    rows = [bad_row("f", n, "v", Refusal(Reason.OVERFLOW, "less"), str(n)) for n in range(1, 8)]
    check_budget(rows, 7, 1000, BadRowBudget(7, 0.01))
    for budget in (BadRowBudget(6, 0.01), BadRowBudget(7, 0.006)):
        with pytest.raises(ErrorBudgetExceeded, match="more bad rows") as caught:
            check_budget(rows, 7, 1000, budget)
        assert "7 bad of 1000 rows" in str(caught.value.found)
        assert "f line 5, column v: overflow, found 5, expected less" in str(caught.value)
        assert "and 2 more" in str(caught.value)
    check_budget([], 0, 0, BadRowBudget(0, 0.0))


def test_values_of_bad_rows_are_short() -> None:
    row: BadRow = bad_row("f", 1, "v", Refusal(Reason.OVERFLOW, "e"), "é" * 2000, b"x" * (2 << 20))
    assert len(row.value.encode()) <= 1024
    assert row.value.endswith("…")
    assert len(row.payload or b"") == 1 << 20


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (stream(ColumnSpec("nope")), "a column that the table does not have"),
        (stream(ColumnSpec("n"), ColumnSpec("n")), "described twice"),
        (stream(ColumnSpec("n", meta="offset")), "cannot hold the offset of a row of this feed"),
        (stream(ColumnSpec("n", meta="file")), "cannot hold the file"),
        (stream(ColumnSpec("n", unit="ms")), "cannot have this unit"),
        (stream(ColumnSpec("at", zone="Mars/Base")), "unknown time zone"),
        (stream(ignore=("n",)), "both stored and ignored"),
        (stream(internal=InternalRule("column", "at")), "cannot name internal partitions"),
        (stream(internal=InternalRule("meta", "partition")), "cannot name internal partitions"),
        (stream(value=ValueRule("n")), "cannot give the partition value"),
        (stream(value=ValueRule("at", zone="x")), "unknown time zone"),
        (stream(value=ValueRule()), "both a column and a fixed text, or neither"),
    ],
)
def test_settings_that_do_not_fit(spec: StreamSpec, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        resolve_targets(spec, TABLE)


def test_fixed_names_are_checked() -> None:
    with pytest.raises(InvalidNameError):
        resolve_targets(stream(internal=InternalRule("fixed", "../x")), TABLE)
    with pytest.raises(InvalidNameError):
        resolve_targets(stream(value=ValueRule(fixed="a/b")), TABLE)
