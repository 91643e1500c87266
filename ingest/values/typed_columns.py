"""Whole columns of text to typed Arrow arrays, taking only what is proven to equal ``ingest.values.exact_values``.

Each conversion returns the typed array and a mask of rows *in doubt* (or None): rows whose text it does not take.
Doubt decides nothing; the exact path does. A null in the input is null in the output and never in doubt. The
texts are either the compact JSON text of each value (``json_tokens``: strings in quotes, numbers as printed) or
the fields of a CSV file (``csv_texts``).

Of columns whose type has a codec, arrays of numbers are cut at their commas, and their elements converted at once;
other arrays, and maps, are parsed. What is not certain is in doubt, row by row. The compiled core takes arrays and maps
of plain values, and bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.spec import Target, TextForm
from sparkhaven.ingest.values.arrow_columns import (
    Mask,
    Typed,
    bytes_of,
    compact,
    either,
    instants,
    join,
    mask_of,
    offsets_of,
    outside,
    rows_with,
    some,
    try_cast,
    without,
)
from sparkhaven.ingest.values.coded_values import (
    STRUCTURED,
    coded_texts,
    element_target,
    has_settings,
    stored,
    unstored_json,
    with_settings,
)
from sparkhaven.ingest.values.exact_values import NUL_IS_ONE_BYTE, PYTHON_CHARSETS, from_json, integer_range
from sparkhaven.ingest.values.instants import count_target, counted_column, is_counted
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.text_forms import clean_texts, iso_instants, words
from sparkhaven.ingest.values.typed_rows import Refusal, Value, typed_array
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.instants import UNIT_NS
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
from sparkhaven.store.types.datatypes import DOUBLE_NULL, FLOAT_NULL


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


_PLAIN_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_INTEGER = r"^-?[0-9]{1,18}$"
_WHOLE = r"^-?[0-9]{1,15}\.0{1,15}$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_INTEGER_BYTES, _FLOAT_BYTES = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
_INTEGER_BYTES[list(b"-0123456789")] = True
_FLOAT_BYTES[list(b"+-.0123456789eE")] = True
_BACKSLASH, _QUOTE, _NUL = 0x5C, 0x22, 0x00


def json_tokens(tokens: pa.StringArray, target: Target) -> Typed:
    """Typed values of one field's JSON texts."""
    name, coding = target.column.type.name, target.column.type.coding
    if is_counted(target):
        return counted_column(json_tokens(tokens, count_target(target)), target)
    if coding is not None:
        return coded_tokens(tokens, target, coding)
    if name in ("String", "char") or (name == "Instant" and target.unit == "iso"):
        texts, doubt = _unquote(tokens)
        if target.as_text and doubt is not None:  # a number or a word is its own text
            texts, doubt = compact(pc.coalesce(texts, pc.if_else(pa.array(doubt), tokens, None))), None
        texts, more = clean_texts(texts, target)
        return join(_strings(texts, target), either(doubt, more))
    if name == "Boolean":
        if target.form is None:
            return _booleans(tokens, ("true", "false"), ())
        return _booleans(tokens, *_boolean_tokens(target.form))
    if target.form is not None and target.form.quoted:
        return _quoted_numbers(tokens, target)
    return _numbers(tokens, target)


def csv_texts(texts: pa.StringArray, target: Target) -> Typed:
    """Typed values of one field's CSV texts; null texts are null already."""
    name = target.column.type.name
    if is_counted(target):
        return counted_column(csv_texts(texts, count_target(target)), target)
    texts, doubt = clean_texts(texts, target)
    if target.column.type.coding is not None:
        return join(_coded_texts(texts, target), doubt)
    if name in ("String", "char") or (name == "Instant" and target.unit == "iso"):
        return join(_strings(texts, target), doubt)
    if name == "Boolean":
        return join(_booleans(texts, *words(target)), doubt)
    return join(_numbers(texts, target), doubt)


def _coded_texts(texts: pa.StringArray, target: Target) -> Typed:
    """Texts of a column whose type has a codec. The elements of arrays follow settings of the column one by one."""
    coding = target.column.type.coding
    assert coding is not None  # noqa: S101  the caller saw it
    if coding.elements is not None and has_settings(target):
        return pa.nulls(len(texts), coding.arrow), some(mask_of(texts.is_valid()))
    return coded_texts(texts, coding)


def narrow(values: pa.Array, target: Target) -> Typed:
    """int64 values into the range of the column's whole-number type."""
    low, high = integer_range(target.column.type.name)
    doubt = outside(values, low, high)
    return pc.cast(without(values, doubt), target.column.type.arrow), doubt


def null_alike(values: pa.Array, target: Target) -> Mask | None:
    """Which values of the column's own type are equal to its null value."""
    kind = target.column.type
    if kind.null is None or pa.types.is_boolean(values.type):
        return None
    same = pc.equal(values, pa.scalar(kind.null, values.type))
    return some(mask_of(same)) if pc.any(same).as_py() else None


def floats(values: pa.Array, target: Target, *, finite: bool) -> Typed:
    """float64 values into double or float; overflow, null values and (if ``finite``) NaN are in doubt."""
    plain = values.to_numpy(zero_copy_only=False)
    null = DOUBLE_NULL
    if target.column.type.name == "float":
        with np.errstate(over="ignore", invalid="ignore"):
            plain, null = plain.astype(np.float32), FLOAT_NULL
    odd = (~np.isfinite(plain) | (plain == null)) if finite else ((plain == null) | _grown(values, plain))
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    if valid is not None:
        odd &= valid
    null_mask = None if valid is None else ~valid
    return pa.array(plain, target.column.type.arrow, mask=null_mask, from_pandas=False), some(odd)


def texts_of(texts: pa.StringArray, target: Target) -> Typed:
    """Strings as they are, those that the column's charset cannot hold in doubt."""
    charset = target.column.encoding or "UTF_8"
    doubt: Mask | None = None
    data = bytes_of(texts)
    if charset in NUL_IS_ONE_BYTE and (data == _NUL).any():
        doubt = mask_of(pc.equal(texts, "\x00"))
    if charset in ("US_ASCII", "ISO_8859_1") and (data > 0x7F).any():
        encoded = texts.dictionary_encode()
        fits_charset = np.array([_fits(value, charset) for value in encoded.dictionary.to_pylist()] + [True], np.bool_)
        codes = encoded.indices.fill_null(len(fits_charset) - 1).to_numpy(zero_copy_only=False)
        doubt = either(doubt, some(~fits_charset[codes]))
    return texts, doubt


def _strings(texts: pa.StringArray, target: Target) -> Typed:
    name = target.column.type.name
    if name == "Instant":
        return iso_instants(texts, target)
    return _chars(texts) if name == "char" else texts_of(texts, target)


def _boolean_tokens(form: TextForm) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """JSON texts that are true and false; others, and the empty one that may be null, are left to the exact pass."""

    def tokens(plain: str, accepted: tuple[str, ...]) -> tuple[str, ...]:
        texts = [json.dumps(word, ensure_ascii=False) for word in accepted if word]
        return (plain, *texts, *(word for word in accepted if _PLAIN_NUMBER.match(word)))

    return tokens("true", form.true), tokens("false", form.false)


def _quoted_numbers(tokens: pa.StringArray, target: Target) -> Typed:
    """Numbers, or strings with numbers in them as a CSV file has them; an empty string is null."""
    quoted = pc.starts_with(tokens, '"').fill_null(False)
    if not pc.any(quoted).as_py():
        return _numbers(tokens, target)
    texts, doubt = _unquote(compact(pc.if_else(quoted, tokens, None)))
    texts, more = clean_texts(compact(pc.if_else(pc.equal(texts, ""), None, texts)), target)
    return join(_numbers(compact(pc.if_else(quoted, texts, tokens)), target), either(doubt, more))


def _numbers(texts: pa.StringArray, target: Target) -> Typed:
    name = target.column.type.name
    if name in INTEGER_BITS:
        values, doubt = _integers(texts)
        return join(narrow(values, target), doubt)
    if name == "Instant":
        values, doubt = _integers(texts, whole=False)
        return join(scaled_instants(values, target), doubt)
    odd = rows_with(texts, ~_FLOAT_BYTES)
    doubt = _mask_at(odd, len(texts)) if len(odd) else None
    values, more = try_cast(without(texts, doubt), pa.float64(), _NUMBER)
    return join(floats(values, target, finite=True), either(doubt, more))


def scaled_instants(values: pa.Array, target: Target) -> Typed:
    """int64 counts of the column's unit as Instants; those near the ends of the range are in doubt."""
    scale = UNIT_NS[target.unit]
    doubt = outside(values, -(2**63 - 1) // scale + 1, (2**63 - 1) // scale)
    values = without(values, doubt)
    plain = values.fill_null(0).to_numpy(zero_copy_only=False) * np.int64(scale)
    null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return instants(plain, null), doubt


def _integers(texts: pa.StringArray, *, whole: bool = True) -> Typed:
    odd = rows_with(texts, ~_INTEGER_BYTES)
    doubt = _mask_at(odd, len(texts))
    if len(odd):
        odd_mask = pa.array(doubt)
        replaced = pa.nulls(len(odd), pa.string())
        if whole:
            picked = texts.take(pa.array(odd))
            decimal = pc.match_substring_regex(picked, _WHOLE)
            exact = pc.cast(pc.if_else(decimal, picked, None), pa.float64())  # at most 15 digits: no rounding
            replaced = pc.cast(pc.cast(exact, pa.int64()), pa.string())
            doubt[odd] = ~mask_of(decimal)
        texts = compact(pc.replace_with_mask(texts, odd_mask, replaced))
    values, more = try_cast(texts, pa.int64(), _INTEGER)
    return values, either(some(doubt), more)


def _mask_at(rows: npt.NDArray[np.int64], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


def _booleans(texts: pa.StringArray, yes: tuple[str, ...], no: tuple[str, ...]) -> Typed:
    words = pa.array((*yes, *no) if no else yes)
    codes = pc.index_in(texts, value_set=words)
    truth = pc.less(codes, len(yes)) if no else pc.equal(codes, 0)
    doubt = some(mask_of(codes.is_null()) & mask_of(texts.is_valid())) if codes.null_count > texts.null_count else None
    return truth, doubt


def _chars(texts: pa.StringArray) -> Typed:
    encoded = texts.dictionary_encode()
    units = [ord(t) if len(t) == 1 and ord(t) < 0xFFFF else -1 for t in encoded.dictionary.to_pylist()]
    unit_of_code = np.array([*units, 0], np.int64)
    row_units = unit_of_code[encoded.indices.fill_null(len(units)).to_numpy(zero_copy_only=False)]
    null = mask_of(texts.is_null()) if texts.null_count else None
    doubt = some(row_units < 0)
    return pa.array(np.maximum(row_units, 0).astype(np.uint16), pa.uint16(), mask=null), doubt


def _unquote(tokens: pa.StringArray) -> tuple[pa.StringArray, Mask | None]:
    """Contents of JSON strings; a token that is no string is in doubt (and null)."""
    doubt: Mask | None = None
    offsets = offsets_of(tokens)
    if tokens.null_count < len(tokens):
        data = np.frombuffer(tokens.buffers()[2], np.uint8)
        starts = offsets[:-1]
        if tokens.null_count:
            valid = mask_of(tokens.is_valid())
            quoted = np.ones(len(tokens), np.bool_)
            quoted[valid] = data[starts[valid]] == _QUOTE
        else:
            quoted = data[starts] == _QUOTE
        doubt = some(~quoted)
        if doubt is not None:
            tokens = compact(pc.if_else(pa.array(quoted), tokens, None))
    texts = pc.binary_slice(tokens.view(pa.binary()), 1, -1).view(pa.string())
    if (bytes_of(tokens) == _BACKSLASH).any():
        escaped = pc.match_substring(tokens, "\\")
        plain = json.loads("[" + ",".join(tokens.filter(escaped).to_pylist()) + "]")
        texts = pc.replace_with_mask(texts, escaped.fill_null(False), pa.array(plain, pa.string()))
    return texts, doubt


def _fits(text: str, charset: str) -> bool:
    try:
        text.encode(PYTHON_CHARSETS[charset])
    except UnicodeEncodeError:
        return False
    return True


def _grown(values: pa.Array, plain: npt.NDArray[Any]) -> Mask:
    """Where a finite number became infinite by narrowing."""
    before: npt.NDArray[np.float64] = values.to_numpy(zero_copy_only=False)
    grown: Mask = np.isinf(plain) & np.isfinite(before)
    return grown
