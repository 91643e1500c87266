"""Whole columns of JSON texts that the compiled core takes: arrays and maps of plain values, bytes."""

from __future__ import annotations

import pyarrow as pa

from sparkhaven.ingest.values.arrow_columns import Typed, join
from sparkhaven.ingest.values.coded_values import STRUCTURED, stored
from sparkhaven.ingest.values.exact_values import integer_range
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.native.json_lists import (
    PLAIN_KINDS,
    STRING,
    STRING_OR_ARRAY,
    byte_values,
    map_lists,
    number_lists,
)
from sparkhaven.store.types.codings.coding import Coding


def compiled_values(tokens: pa.StringArray, coding: Coding) -> Typed | None:
    """Typed values of one field's JSON texts, and which are in doubt; None: of another type."""
    if pa.types.is_binary(coding.arrow):
        octets = byte_values(tokens, STRING_OR_ARRAY if coding.json == "array" else STRING)
        return stored(octets[0], coding, octets[1])
    name = "String" if coding.elements is None else coding.elements
    if coding.json not in STRUCTURED or not (name in PLAIN_KINDS or coding.json == "object"):
        return None
    low, high = integer_range(name) if name in INTEGER_BITS else (0, 0)
    lists = (map_lists if coding.json == "object" else number_lists)(tokens, name, low, high)
    return lists if name != "char" else join(lists, coding.unstorable(lists[0]))
