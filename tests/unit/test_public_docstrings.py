"""What users call says what it takes, returns and raises, and each has an example, which is run here."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.testing import make_table

CLASSES = (sparkhaven.Database, sparkhaven.DatabaseSnapshot, sparkhaven.Table, sparkhaven.Snapshot)
FUNCTIONS = (sparkhaven.open_table, sparkhaven.deephaven_writer, sparkhaven.merge_frame)


def documented() -> Iterator[tuple[str, Any]]:
    """Each public method and function, by its name."""
    for kind in CLASSES:
        for name, found in vars(kind).items():
            if not name.startswith("_") and inspect.isfunction(found):
                yield f"{kind.__name__}.{name}", found
    for function in FUNCTIONS:
        yield function.__name__, function


NAMED = dict(documented())


@pytest.mark.parametrize("name", NAMED)
def test_a_call_says_what_it_takes_returns_and_raises(name: str) -> None:
    text = inspect.getdoc(NAMED[name]) or ""
    parameters = [each for each in inspect.signature(NAMED[name]).parameters.values() if each.name != "self"]
    assert all(part in text for part in ("\nReturns:\n", "\nRaises:\n", "\nExample:\n"))
    taken = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    named = re.findall(r"^    (\**\w+):", taken, re.M)
    assert named == ["*" * 2 * (each.kind is each.VAR_KEYWORD) + each.name for each in parameters]


@pytest.mark.parametrize("name", [*NAMED, *(kind.__name__ for kind in CLASSES)])
def test_an_example_shows_what_happens(name: str, tmp_path: Path) -> None:
    root = tmp_path / "db"
    trades = {"Sym": ["IBM", "IBM", "AAPL"], "Size": [100, 50, 250], "Price": [307.25, 307.5, 271.0]}
    make_table(root, "Equity.Trade", trades, date="2026-11-20")
    make_table(root, "Equity.Quote", {"Sym": ["IBM"], "Bid": [307.0]}, date="2026-11-20")
    known = {"sparkhaven": sparkhaven, "db": sparkhaven.Database(root), "root": root, "pa": pa, "spark": None}
    shown = NAMED.get(name) or getattr(sparkhaven, name)
    parser = doctest.DocTestParser()
    example = parser.get_doctest(inspect.getdoc(shown) or "", known, name, None, None)
    assert example.examples
    lines: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=lines.append)
    assert not failed, "".join(lines)
