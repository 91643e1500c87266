"""What a field becomes, and why: the reason says what was seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from sparkhaven.ingest.inference.field_facts import PLURAL, TEXT, Facts
from sparkhaven.ingest.inference.field_readings import Reading

Fits = Callable[[Reading], bool]
"""Whether the decoder takes every value of the sample so."""


@dataclass(frozen=True, slots=True)
class TypeChoice:
    """A reading and why; ``also`` are further sentences. No reading: the field cannot be stored."""

    reading: Reading | None
    reason: str
    also: tuple[str, ...] = ()


def first(facts: Facts, readings: list[Reading], fits: Fits, why: str, words: str | None = None) -> TypeChoice | None:
    """The first of some readings that fits; ``why`` is said of it, ``words`` its values are. None if none does."""
    words = words or PLURAL[facts.only or TEXT]
    for reading in readings:
        if fits(reading):
            return TypeChoice(reading, f"{reading.type}: {seen(facts, words)}{why}")
    return None


def seen(facts: Facts, words: str) -> str:
    """How many of the rows are what they are said to be, and how many are null."""
    nulls = f", {facts.nulls:,} {'is' if facts.nulls == 1 else 'are'} null" if facts.nulls else ""
    return f"{facts.values:,} of {facts.rows:,} values are {words}{nulls}"


def between(facts: Facts, words: str) -> str:
    """What numbers are, with the smallest and the largest."""
    if facts.low is None or facts.high is None:
        return words
    return f"{words} from {_number(facts.low)} to {_number(facts.high)}"


def _number(value: int | Decimal) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**30 else f"{value:.6g}"
