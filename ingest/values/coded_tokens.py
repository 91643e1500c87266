"""Whole columns of JSON texts, as the scanner cuts them out, for columns whose type has a codec.

Arrays of numbers are cut at their commas, and their elements converted at once; other arrays, and maps, are parsed.
What is not certain is in doubt, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
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
    outside,
    rows_with,
    some,
    try_cast,
    without,
)
from sparkhaven.ingest.values.coded_values import STRUCTURED, coded_texts, unstored_json
from sparkhaven.ingest.values.compiled_tokens import compiled_values
from sparkhaven.ingest.values.exact_values import from_json, integer_range
from sparkhaven.ingest.values.iso_texts import iso_instants
from sparkhaven.ingest.values.nested_values import element_target, with_settings
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.strict_json import strict_json
from sparkhaven.ingest.values.text_forms import clean_texts
from sparkhaven.ingest.values.typed_rows import typed_array
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.native.number_lists import NUMBER_KINDS
from sparkhaven.store.native.text_lists import text_lists
from sparkhaven.store.types.codings.coding import Coding, list_elements, lists_with
from sparkhaven.store.types.datatypes import DOUBLE_NULL, FLOAT_NULL

_QUOTE, _OPEN = 0x22, 0x5B
_INTEGER = r"^-?[0-9]{1,18}$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_BLANKS = " \t\r\n"
_TEXTS = pa.list_(pa.string())
_PLAIN, _BLANK = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
_PLAIN[list(b"0123456789+-.eE,nul" + _BLANKS.encode())] = True
_BLANK[list(_BLANKS.encode())] = True


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
        return plain_number_lists(tokens, coding) if numbers else _parsed(tokens, target, coding)
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
    texts = target.form is None and coding.elements is None and coding.arrow == _TEXTS
    compiled = text_lists(tokens) if texts else None
    if compiled is not None:
        lists, doubt = compiled
        return lists, either(doubt, coding.unstorable(lists))
    given = _json_values(tokens)
    if texts:
        lists = _text_lists(given)
        if lists is not None:
            return lists, coding.unstorable(lists)
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


def _text_lists(given: Sequence[Any]) -> pa.ListArray | None:
    """Lists of texts and null; None if a value is another."""
    if not all(value is None or isinstance(value, list) for value in given):
        return None
    try:
        return pa.array(given, _TEXTS)
    except (pa.ArrowException, TypeError, UnicodeEncodeError):
        return None


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
    texts, foreign = text_lists(tokens) or _plain_text_lists(tokens)
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


def _plain_text_lists(tokens: pa.StringArray) -> Typed:
    """Lists of texts, and which values are none of ASCII; those are null."""
    given = _json_values(tokens)
    plain = [one is None or (isinstance(one, list) and all(map(_is_text, one))) for one in given]
    texts = pa.array([one if good else None for one, good in zip(given, plain, strict=True)], _TEXTS)
    return texts, some(~np.array(plain, np.bool_))


def _is_text(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.isascii())


def plain_number_lists(tokens: pa.StringArray, coding: Coding) -> Typed:
    inner = pc.binary_slice(tokens.view(pa.binary()), 1, -1).view(pa.string())
    data, valid = np.frombuffer(tokens.buffers()[2], np.uint8), mask_of(tokens.is_valid())
    doubt = np.zeros(len(tokens), np.bool_)
    doubt[valid] = data[offsets_of(tokens)[:-1][valid]] != _OPEN
    doubt[rows_with(compact(inner), ~_PLAIN)] = True  # strings, words, arrays in arrays
    inner = without(inner, some(doubt))
    if len(rows_with(inner, _BLANK)):
        inner = pc.utf8_trim(inner, _BLANKS)
    lists = pc.split_pattern(pc.if_else(pc.equal(inner, ""), None, inner), ",")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)
    values, odd = _numbers(lists.flatten(), str(coding.elements))
    if odd is not None:
        doubt[np.repeat(np.arange(len(tokens)), lengths)[odd]] = True
    ends = np.zeros(len(tokens) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    none = doubt | ~valid
    bitmap = pa.py_buffer(np.packbits(~none, bitorder="little")) if none.any() else None
    buffers = [bitmap, pa.py_buffer(ends)]
    missing = int(np.count_nonzero(none))
    return pa.Array.from_buffers(coding.arrow, len(tokens), buffers, missing, children=[values]), some(doubt)


def _numbers(texts: pa.StringArray, name: str) -> Typed:
    """Elements as numbers of a plain type; null is a word here."""
    if len(rows_with(texts, _BLANK)):
        texts = pc.utf8_trim(texts, _BLANKS)
    texts = compact(pc.if_else(pc.equal(texts, "null"), None, texts))
    if name in INTEGER_BITS:
        counts, doubt = try_cast(texts, pa.int64(), _INTEGER)
        beyond = outside(counts, *integer_range(name))
        return pc.cast(without(counts, beyond), f"int{INTEGER_BITS[name]}"), either(doubt, beyond)
    values, doubt = try_cast(texts, pa.float64(), _NUMBER)
    plain: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    null = mask_of(values.is_null())
    if name == "float":
        with np.errstate(over="ignore", invalid="ignore"):
            plain = plain.astype(np.float32)
    odd = (~np.isfinite(plain) | (plain == (FLOAT_NULL if name == "float" else DOUBLE_NULL))) & ~null
    return pa.array(plain, mask=null, from_pandas=False), either(doubt, some(odd))
