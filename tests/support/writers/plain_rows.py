"""Rows that pass validation."""

from __future__ import annotations

import random
from typing import Any

from tests.support.writers.merge_cases import random_row


def plain_rows(number: int = 20) -> list[dict[str, Any]]:
    """Rows without nulls whose values are known."""
    rng = random.Random(1)
    rows = []
    for i in range(number):
        row = random_row(rng)
        row |= {"Sym": "ab"[i % 2], "Venue": "XYZ"[i % 3], "I": i, "D": float(i), "Note": f"n{i % 4}", "Flag": True}
        rows.append(row)
    return rows
