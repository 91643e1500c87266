"""The table of a page that says which values of ``x`` a condition keeps."""

from __future__ import annotations

import re

from tests.support.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "where.md"
VALUES = ("1", "7", "NaN", "null")
_ROW = re.compile(r"^\| `([^`|]*x[^`|]*)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def kept_values() -> dict[str, tuple[list[str], list[str]]]:
    """By condition the values that are kept here, and those that a filter of an engine keeps."""
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {condition: (_values(here), _values(engine)) for condition, here, engine in found}


def engine_filter(condition: str) -> str:
    """A condition of the table as an engine's filter writes it."""
    text = condition.replace("isnan", "isNaN").replace("x IS NULL", "isNull(x)").replace("NOT ", "!")
    return text.replace("<>", "!=").replace(" = ", " == ")


def _values(cell: str) -> list[str]:
    return [] if cell.strip() == "none" else cell.strip().split(", ")
