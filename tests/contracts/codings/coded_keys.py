"""The contract of a reader for filters by the keys of an index: of columns with a codec, those rows and no others.

The rows of each key come from plain Python. Dates lie in both formats of history, with late rows, and intraday.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.codings.coded_readers import CodedSnapshot
from tests.support.writers.coded_rows import key_text

KEYS = ("Day", "Far", "Clock", "Short", "Px", "Wide", "Whole")
"""Columns that ``make_coded_snapshot`` has an index over."""
LARGEST = Decimal("999999999999.999999")  # of Px
ABSENT = {
    "Day": "9999-12-31",
    "Far": "1601-01-01",
    "Clock": "23:59:59.999999999",
    "Short": "00:00:00.001",
    "Px": str(LARGEST),
    "Wide": "0.0000000001",
    "Whole": "99999999999999999999",
}


class CodedKeyContract(ABC):
    """Clauses for every reader that takes conditions."""

    @abstractmethod
    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        """``N`` of the rows whose column is one of the values that these texts write; ``null``: or null."""

    def wanted(self, snapshot: CodedSnapshot, column: str, keep: Callable[[Any], bool]) -> list[int]:
        return [row["N"] for row in snapshot.rows if keep(row[column])]

    @pytest.mark.parametrize("column", KEYS)
    def test_one_key_and_several(self, coded_snapshot: CodedSnapshot, column: str) -> None:
        values = [row[column] for row in coded_snapshot.rows if row[column] is not None]
        for keys in ([values[0]], values[-1:], values[::5]):
            texts = [key_text(column, value) for value in keys]
            found = self.numbers(coded_snapshot.root, column, [*texts, ABSENT[column]])
            assert sorted(found) == self.wanted(coded_snapshot, column, keys.__contains__) != []

    @pytest.mark.parametrize("column", KEYS)
    def test_a_key_that_no_row_has_and_null(self, coded_snapshot: CodedSnapshot, column: str) -> None:
        assert self.numbers(coded_snapshot.root, column, [ABSENT[column]]) == []
        found = self.numbers(coded_snapshot.root, column, [ABSENT[column]], null=True)
        assert sorted(found) == self.wanted(coded_snapshot, column, lambda value: value is None) != []
