"""Rows by an index of two or three columns: those of a plain loop, for each pair of types and their odd values."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparkhaven
from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.snapshot import Snapshot, pinned_of
from tests.support.readers.indexed_pairs import DAY_OF_TRIPLES, DAYS, START, PlainRows, asked, instant, make

AT = [instant(nanoseconds).where for nanoseconds in (START, START + 1, -1, -1000)]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PlainRows]:
    root = tmp_path_factory.mktemp("pairs")
    return root, make(root)


def numbers(table: Snapshot, day: str, where: str) -> list[int]:
    return sorted(table.to_arrow("Row", dates=day, where=where)["Row"].to_pylist())


def test_conditions_on_several_columns(pairs: tuple[Path, PlainRows]) -> None:
    """The plan has exactly these rows: an index has told them, and nothing else could."""
    table, plain = open_table(pairs[0], "NS.Pairs"), pairs[1]
    for day, names, literals in asked():
        if all(literal.where for literal in literals):
            where = " and ".join(f'"{name}" = {of.where}' for name, of in zip(names, literals, strict=True))
            wanted = plain.where(names, literals)
            assert numbers(table, day, where) == wanted, where
            assert pinned_of(table).plan(dates=day, where=where).rows == len(wanted), where


@pytest.mark.parametrize(
    ("day", "where"),
    [
        (DAYS["D"], "D in (0, 0.1) and F in (0.1, -0.0, 7)"),
        (DAYS["D"], "D = 0 and F >= 0"),
        (DAYS["F"], "(F = 0 or F is null) and D = 0"),
        (DAYS["At"], f'"At" in ({AT[0]}, {AT[1]}, {AT[2]}) and D = -0.0'),
        (DAYS["At"], "\"At\" <= '1970-01-01T00:00:00Z' and F = 0"),
        (DAYS["L"], "L in (9007199254740992, 9007199254740993) and D = 9007199254740992.0"),
        (DAYS["Text"], "Text is null and D = 0 and Sym != 'a'"),
        (DAY_OF_TRIPLES, "D in (0, 0.1) and F in (0, 0.1) and Text in ('', '😀')"),
        (DAY_OF_TRIPLES, f"F = 0 and \"At\" in ({AT[2]}, {AT[3]}) and Sym = 'a'"),
        (DAY_OF_TRIPLES, "D = 0 and F = 0"),
        (DAY_OF_TRIPLES, "D = 0 and Text = 'a'"),
        (DAY_OF_TRIPLES, "(D = 0 and F = 0 and Text = 'a') or (L = 0 and D = 0 and Note = '')"),
    ],
)
def test_lists_ranges_and_alternatives(pairs: tuple[Path, PlainRows], day: str, where: str) -> None:
    """The same rows as of a table that was read without a condition."""
    table = open_table(pairs[0], "NS.Pairs")
    predicate = pinned_of(table).predicate(where)
    assert predicate is not None
    every = table.to_arrow(dates=day)
    rows = predicate.filter(every)["Row"].to_pylist()
    assert 0 < len(rows) < every.num_rows
    assert numbers(table, day, where) == sorted(rows)


def test_queries_on_several_columns(pairs: tuple[Path, PlainRows]) -> None:
    root, plain = pairs
    listed = [(day, names, literals) for day, names, literals in asked() if all(literal.sql for literal in literals)]
    for day, names, literals in listed[:: max(len(listed) // 40, 1)]:
        parts = [f'"{name}" = {of.sql}' for name, of in zip(names, literals, strict=True)]
        query = f'select "Row" from NS.Pairs where "Date" = \'{day}\' and {" and ".join(parts)} order by 1'
        assert sparkhaven.sql(root, query)["Row"].to_pylist() == plain.where(names, literals), query
