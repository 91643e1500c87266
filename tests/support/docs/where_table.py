"""The table of a page that says which values of ``x`` an expression keeps."""

from __future__ import annotations

import re

from tests.support.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "where.md"
VALUES = ("1", "7", "NaN", "null")
_ROW = re.compile(r"^\| `([^`|]*x[^`|]*)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def kept_values() -> dict[str, tuple[list[str], list[str]]]:
    """By expression the values that are kept here, and those that a filter of an engine keeps."""
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {expression: (_values(here), _values(engine)) for expression, here, engine in found}


def _values(cell: str) -> list[str]:
    return [] if cell.strip() == "none" else cell.strip().split(", ")
