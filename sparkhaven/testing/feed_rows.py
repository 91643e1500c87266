"""The rows that suites of feeds put into a source, and the table that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

Row = Mapping[str, str | int | None]
"""A row of a source: texts ``Src``, ``Sym`` and ``Note``, and a number ``N``; null is None."""
TABLE = TableName("Test", "Event")
SCHEMA = TableSchema(
    "Test",
    "Event",
    (
        Column("Date", data_type("String"), Kind.PARTITIONING, Storage.NONE, 0, "UTF_8"),
        Column("Src", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 1, "UTF_8"),
        Column("N", data_type("long"), Kind.NORMAL, Storage.FIXED, 2),
        Column("Sym", data_type("String"), Kind.NORMAL, Storage.SYMBOL, 3, "UTF_8"),
        Column("Note", data_type("String"), Kind.NORMAL, Storage.BLOB, 4, "UTF_8"),
    ),
)
KEY = LocationKey("a", "2026-11-20")
BAD, WRONG = -1, -2  # in the place of a row's number: one that is refused by the router, and one by its decoder
CHANGES: dict[int, Row] = {BAD: {"Src": None}, WRONG: {"Note": "\0"}}


def rows_of(numbers: Sequence[int]) -> list[Row]:
    """Rows by their numbers, from which the other columns follow."""
    return [{**_row(max(number, 0)), **CHANGES.get(number, {})} for number in numbers]


def _row(number: int) -> Row:
    sym = None if number % 7 == 3 else f"s{number % 5}"
    note = None if number % 4 == 1 else "é" * (number % 3) + str(number)
    return {"Src": "a", "N": number, "Sym": sym, "Note": note}
