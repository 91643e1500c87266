"""Random conditions in SQL over columns of any type, from literals that their rows have, or nearly have."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Literals = Mapping[str, Sequence[str]]
"""By column what it is compared with, as SQL; no literal: the column is asked for null alone."""
_SIGNS = ["=", "<>", "<", "<=", ">", ">="]


def literal_of(value: Any) -> str:
    """A number, a truth, a text or an Instant as SQL has it."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return f"'{'NaN' if math.isnan(value) else value}'::DOUBLE"
    return f"'{value.isoformat() if isinstance(value, datetime) else value}'"


def random_condition(rng: random.Random, literals: Literals, others: Sequence[str] = (), depth: int = 0) -> str:
    """A condition of up to three levels.

    Args:
        rng: where chance comes from.
        literals: of the columns.
        others: conditions that are taken as they are, such as functions of columns.
        depth: of this condition.
    """
    chance = rng.random()
    if depth < 3 and chance < 0.4:
        parts = [random_condition(rng, literals, others, depth + 1) for _ in range(2)]
        return f"({parts[0]} {rng.choice(['AND', 'OR'])} {parts[1]})"
    if depth < 3 and chance < 0.5:
        return f"NOT ({random_condition(rng, literals, others, depth + 1)})"
    if others and chance < 0.6:
        return rng.choice(others)
    name = rng.choice([*literals])
    listed = literals[name]
    if chance < 0.7 or not listed:
        return f'"{name}" IS {rng.choice(["", "NOT "])}NULL'
    if chance < 0.8:
        return f'"{name}" IN ({", ".join(rng.choices(listed, k=rng.randrange(1, 4)))})'
    return f'"{name}" {rng.choice(_SIGNS)} {rng.choice(listed)}'
