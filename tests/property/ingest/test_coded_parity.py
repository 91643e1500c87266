"""Texts and JSON values of types with a codec: a whole column takes what the exact pass takes, or is in doubt."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.exact_values import from_json, from_text
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.typed_columns import csv_texts, json_tokens
from sparkhaven.ingest.values.typed_rows import Refusal, typed_array
from tests.support.ingest.ingest_cases import target
from tests.support.ingest.scanning.lines import CODED, number, spoilt, suited

MORE = (target("BigDecimal", "free"), target("BigInteger", "huge"), target("BigDecimal 50,10,allowRounding", "wide"))
ODD = ["", " ", "-", "+", ".", "5.", ".5", "+5", "1e", "0x1", "NaN", "null", "\x00", "é", "00012.5", "1_0", "１"]


def _strict(text: str) -> bool:
    try:
        strict_json(text)
    except ValueError:
        return False
    return text[:1] in '"[{-0123456789tf' and text.strip() == text


def _agree(values: pa.Array, doubt: Any, singles: list[Any], one: Target) -> int:
    """Asserts that rows that are not in doubt have the value of the exact pass; how many they are."""
    values.validate(full=True)
    taken = 0
    for row, single in enumerate(singles):
        if doubt is None or not doubt[row]:
            assert not isinstance(single, Refusal), (row, single)
            assert str(values.slice(row, 1)) == str(typed_array([single], one)), (row, single)
            taken += 1
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("one", (*CODED, *MORE), ids=lambda one: f"{one.column.type.name} {one.source}")
def test_whole_columns_take_what_single_values_are(one: Target) -> None:
    chance = random.Random(one.source)
    plain = [
        suited(chance, one) if one in CODED else chance.choice([number(chance), f'"{number(chance)}"'])
        for _ in range(600)
    ]
    texts = [*plain, *(spoilt(chance, text) for text in plain[:200] if text)]
    tokens = [text for text in texts if _strict(text)]
    together = json_tokens(pa.array(tokens), one)
    assert _agree(*together, [from_json(strict_json(text), one) for text in tokens], one)
    bare = [text.strip('"') for text in texts] + ODD
    _agree(*csv_texts(pa.array(bare), one), [from_text(text, one) for text in bare], one)
