"""Deployed tables with columns whose names differ in case only: who ignores case must not read them."""

from __future__ import annotations

from collections.abc import Iterable

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.types.model import Column, case_twins


def refuse_case_twins(table: str, columns: Iterable[Column], who: str, instead: str) -> None:
    """SchemaMismatchError if two of the columns differ in case only.

    ``who`` ignores case; ``instead`` says what does not.
    """
    twins = case_twins(column.name for column in columns)
    if twins is not None:
        one, other = twins
        raise SchemaMismatchError(
            f"{who} cannot tell two columns of {table} apart",
            where=table,
            expected="names that differ by more than case",
            found=f"{one} and {other}",
            hint=f"{instead}. To rename one, write another name into the schema file, then"
            f" `sparkhaven schema deploy FILE --rename {other}=NEW`",
        )
