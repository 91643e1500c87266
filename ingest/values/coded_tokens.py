"""Whole columns of JSON texts, as the scanner cuts them out, for columns whose type has a codec.

Arrays of numbers are cut at their commas, and their elements converted at once; other arrays, and maps, are parsed.
What is not certain is in doubt, row by row.

The compiled core takes arrays and maps of plain values, and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import (
    Mask,
    Typed,
    compact,
    either,
    join,
    mask_of,
    offsets_of,
    some,
    without,
)
from sparkhaven.ingest.values.coded_values import (
    STRUCTURED,
    coded_texts,
    element_target,
    stored,
    unstored_json,
    with_settings,
)
from sparkhaven.ingest.values.date_patterns import iso_instants
from sparkhaven.ingest.values.exact_values import from_json, integer_range
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.text_forms import clean_texts
from sparkhaven.ingest.values.typed_rows import typed_array
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.native.json_lists import (
    NUMBER_KINDS,
    PLAIN_KINDS,
    STRING,
    STRING_OR_ARRAY,
    byte_values,
    map_lists,
    number_lists,
    text_lists,
)
from sparkhaven.store.types.codings.coding import Coding, list_elements, lists_with


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


_QUOTE = 0x22
_TEXTS = pa.list_(pa.string())


def coded_tokens(tokens: pa.StringArray, target: Target, coding: Coding) -> Typed:
    """Typed values of one field's JSON texts."""
    if tokens.null_count == len(tokens):
        return pa.nulls(len(tokens), coding.arrow), None
    numbers = coding.json == "array" and coding.elements in NUMBER_KINDS
    whole = compiled_values(tokens, coding) if numbers or target.form is None else None
    if whole is not None:
        return whole
    if coding.json in STRUCTURED:
        plain = target.unit == "iso" and target.form is None
        if coding.json == "array" and coding.elements == "Instant" and plain:
            return _instant_lists(tokens, target, coding)
        return _parsed(tokens, target, coding)
    texts, doubt = _texts(tokens, target, numbers=coding.json == "number")
    return join(coded_texts(texts, coding), doubt)


def _texts(tokens: pa.StringArray, target: Target, *, numbers: bool) -> Typed:
    """Contents of strings without escapes, and numbers as they stand; others are in doubt, and null."""
    data, valid = np.frombuffer(tokens.buffers()[2], np.uint8), mask_of(tokens.is_valid())
    first = np.zeros(len(tokens), np.uint8)
    first[valid] = data[offsets_of(tokens)[:-1][valid]]
    quoted = first == _QUOTE
    doubt = mask_of(pc.match_substring(tokens, "\\"))
    doubt |= valid & (np.isin(first, list(b"tf[{")) if numbers else ~quoted)
    texts = pc.binary_slice(without(tokens, some(doubt)).view(pa.binary()), 1, -1).view(pa.string())
    more: Mask | None = None
    if target.form is not None:
        texts, more = clean_texts(compact(pc.if_else(pa.array(quoted), texts, None)), target)
        if target.form.quoted:
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
    if not quoted[valid].all():
        texts = pc.if_else(pa.array(quoted), texts, without(tokens, some(doubt)))
    return compact(texts), either(some(doubt), more)


def _parsed(tokens: pa.StringArray, target: Target, coding: Coding) -> Typed:
    """Each value as the exact pass takes it, of one parse for all, and one look at what can be stored."""
    if target.form is None and coding.elements is None and coding.arrow == _TEXTS:
        lists, doubt = text_lists(tokens)
        return lists, either(doubt, coding.unstorable(lists))
    given = _json_values(tokens)
    if target.form is None:
        element = with_settings(from_json, target)
        values, doubt = _taken(given, lambda value: unstored_json(value, coding, False, element))
        try:
            array = typed_array(values, target)
            return array, either(doubt, coding.unstorable(array))
        except (pa.ArrowException, UnicodeEncodeError, OverflowError):
            pass  # one of them has no place in an array: the exact pass says which
    values, doubt = _taken(given, lambda value: from_json(value, target))
    return typed_array(values, target), doubt


def _json_values(tokens: pa.StringArray) -> list[Any]:
    """Each value, of one parse for all."""
    values: list[Any] = strict_json(f"[{','.join(pc.fill_null(tokens, 'null').to_pylist())}]")
    return values


def _taken(given: Sequence[Any], take: Callable[[Any], Value | Refusal]) -> tuple[list[Value], Mask | None]:
    """Values, null where there is none; and which are refused."""
    taken = [None if value is None else take(value) for value in given]
    doubt = np.array([isinstance(value, Refusal) for value in taken], np.bool_)
    return [None if isinstance(value, Refusal) else value for value in taken], some(doubt)


def _instant_lists(tokens: pa.StringArray, target: Target, coding: Coding) -> Typed:
    """Texts of all arrays are made instants at once; what is no array of ASCII texts is in doubt."""
    texts, foreign = text_lists(tokens)
    starts, elements = list_elements(texts)
    if not pc.all(pc.string_is_ascii(elements)).as_py():
        ascii_only = pc.fill_null(pc.string_is_ascii(elements), True)
        foreign = either(foreign, lists_with(starts, ~mask_of(ascii_only)))
        elements = compact(pc.if_else(ascii_only, elements, None))
    one = replace(element_target(str(coding.elements)), zone=target.zone, far=target.far)
    values, odd = iso_instants(elements, one)
    buffers = texts.buffers()[:2]
    array = pa.Array.from_buffers(coding.arrow, len(texts), buffers, texts.null_count, children=[values])
    doubt = either(foreign, None if odd is None else lists_with(starts, odd))
    return array, either(doubt, coding.unstorable(array))
