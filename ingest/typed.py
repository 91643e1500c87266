"""Whole columns of text to typed Arrow arrays, taking only what is proven to equal ``ingest.exact``.

Each conversion returns the typed array and a mask of rows *in doubt* (or None): rows whose text it does not take.
Doubt is no verdict; the exact path decides. A null in the input is null in the output and never in doubt. The
texts are either the compact JSON text of each value (``json_tokens``: strings in quotes, numbers as printed) or
the fields of a CSV file (``csv_texts``).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.exact import INTEGER_BITS, NUL_IS_ONE_BYTE, PYTHON_CHARSETS, UNIT_NS, integer_range
from ingest.spec import Target
from ingest.zones import zone_table
from store.schema.types import DOUBLE_NULL, FLOAT_NULL

Mask = npt.NDArray[np.bool_]
Typed = tuple[pa.Array, Mask | None]

_INTEGER = r"^-?[0-9]{1,18}$"
_WHOLE = r"^-?[0-9]{1,15}\.0{1,15}$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SAFE_LOW, _SAFE_HIGH = -9_214_560_000 * 10**9, 9_214_646_400 * 10**9  # 1678 to 2262-01-01, in ns
_INTEGER_BYTES, _FLOAT_BYTES = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
_INTEGER_BYTES[list(b"-0123456789")] = True
_FLOAT_BYTES[list(b"+-.0123456789eE")] = True
_BACKSLASH, _QUOTE, _NUL = 0x5C, 0x22, 0x00


def json_tokens(tokens: pa.StringArray, target: Target) -> Typed:
    """Typed values of one field's JSON texts."""
    name = target.column.type.name
    if name in ("String", "char") or (name == "Instant" and target.unit == "iso"):
        texts, doubt = _unquote(tokens)
        return _join(_strings(texts, target), doubt)
    if name == "Boolean":
        return _booleans(tokens, ("true", "false"), ())
    return _numbers(tokens, target)


def csv_texts(texts: pa.StringArray, target: Target) -> Typed:
    """Typed values of one field's CSV texts; null texts are null already."""
    name = target.column.type.name
    if name in ("String", "char") or (name == "Instant" and target.unit == "iso"):
        return _strings(texts, target)
    if name == "Boolean":
        return _booleans(texts, ("true", "True", "TRUE"), ("false", "False", "FALSE"))
    return _numbers(texts, target)


def bytes_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes that the values of a string array lie in, without copying."""
    start, stop = int(offsets_of(array)[0]), int(offsets_of(array)[-1])
    data = array.buffers()[2]
    return np.frombuffer(data, np.uint8)[start:stop] if data is not None else np.empty(0, np.uint8)


def rows_with(texts: pa.StringArray, some: Mask) -> npt.NDArray[np.int64]:
    """Rows with one of some bytes (a mask of 256), ascending."""
    places = np.flatnonzero(some[bytes_of(texts)])
    if not len(places):
        return places
    offsets = offsets_of(texts)
    return np.unique(np.searchsorted(offsets - offsets[0], places, side="right") - 1)


def compact(array: pa.StringArray) -> pa.StringArray:
    """The array with no bytes below its nulls, as ``bytes_of`` needs it to mean only what is there."""
    if not array.null_count:
        return array
    lengths = np.diff(offsets_of(array))
    valid = _mask(array.is_valid())
    if not lengths[~valid].any():
        return array
    ends = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.where(valid, lengths, 0), out=ends[1:])
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(ends), pa.py_buffer(bytes_of(array.drop_null())), bits)


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the values of a string array start and end in its data buffer."""
    buffer = array.buffers()[1]
    if buffer is None or not len(buffer):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


def instants(values: npt.NDArray[np.int64], null: Mask | None) -> pa.Array:
    """Nanoseconds as an array of Instants."""
    return pa.array(values, pa.int64(), mask=null).view(pa.timestamp("ns", "UTC"))


def narrow(values: pa.Array, target: Target) -> Typed:
    """int64 values into the range of the column's whole-number type."""
    low, high = integer_range(target.column.type.name)
    doubt = _outside(values, low, high)
    return pc.cast(_without(values, doubt), target.column.type.arrow), doubt


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
    made = pa.array(plain, target.column.type.arrow, mask=None if valid is None else ~valid, from_pandas=False)
    return made, _some(odd)


def texts_of(texts: pa.StringArray, target: Target) -> Typed:
    """Strings as they are, those that the column's charset cannot hold in doubt."""
    charset = target.column.encoding or "UTF_8"
    doubt: Mask | None = None
    data = bytes_of(texts)
    if charset in NUL_IS_ONE_BYTE and (data == _NUL).any():
        doubt = _mask(pc.equal(texts, "\x00"))
    if charset in ("US_ASCII", "ISO_8859_1") and (data > 0x7F).any():
        encoded = texts.dictionary_encode()
        known = np.array([_fits(value, charset) for value in encoded.dictionary.to_pylist()] + [True], np.bool_)
        codes = encoded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
        doubt = _either(doubt, _some(~known[codes]))
    return texts, doubt


def iso_instants(texts: pa.StringArray, target: Target) -> Typed:
    """Instants of ISO texts, all with an offset, all without, or mixed."""
    zoned, doubt = _try_cast(texts, pa.timestamp("ns", "UTC"), None)
    if doubt is None:
        return _in_years(zoned)
    if target.zone is None:
        return _mixed(texts, target)
    local, doubt = _try_cast(texts, pa.timestamp("ns"), None)
    if doubt is None:
        return _in_years(*_from_local(local, target.zone))
    return _mixed(texts, target)


def _strings(texts: pa.StringArray, target: Target) -> Typed:
    name = target.column.type.name
    if name == "Instant":
        return iso_instants(texts, target)
    return _chars(texts) if name == "char" else texts_of(texts, target)


def _numbers(texts: pa.StringArray, target: Target) -> Typed:
    name = target.column.type.name
    if name in INTEGER_BITS:
        values, doubt = _integers(texts)
        return _join(narrow(values, target), doubt)
    if name == "Instant":
        values, doubt = _integers(texts, whole=False)
        return _join(scaled_instants(values, target), doubt)
    odd = rows_with(texts, ~_FLOAT_BYTES)
    if len(odd):
        doubt = np.zeros(len(texts), np.bool_)
        doubt[odd] = True
        values, more = _try_cast(_without(texts, doubt), pa.float64(), _NUMBER)
        return _join(floats(values, target, finite=True), _either(doubt, more))
    values, doubt = _try_cast(texts, pa.float64(), _NUMBER)
    return _join(floats(values, target, finite=True), doubt)


def scaled_instants(values: pa.Array, target: Target) -> Typed:
    """int64 counts of the column's unit as Instants; those near the ends of the range are in doubt."""
    scale = UNIT_NS[target.unit]
    doubt = _outside(values, -(2**63 - 1) // scale + 1, (2**63 - 1) // scale)
    values = _without(values, doubt)
    plain = values.fill_null(0).to_numpy(zero_copy_only=False) * np.int64(scale)
    null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return instants(plain, null), doubt


def _integers(texts: pa.StringArray, *, whole: bool = True) -> Typed:
    odd = rows_with(texts, ~_INTEGER_BYTES)
    doubt = np.zeros(len(texts), np.bool_)
    if len(odd):
        doubt[odd] = True
        replaced = pa.nulls(len(odd), pa.string())
        if whole:
            some = texts.take(pa.array(odd))
            decimal = pc.match_substring_regex(some, _WHOLE)
            exact = pc.cast(pc.if_else(decimal, some, None), pa.float64())  # at most 15 digits: no rounding
            replaced = pc.cast(pc.cast(exact, pa.int64()), pa.string())
            doubt[odd] = ~_mask(decimal)
        place = np.zeros(len(texts), np.bool_)
        place[odd] = True
        texts = compact(pc.replace_with_mask(texts, pa.array(place), replaced))
    values, more = _try_cast(texts, pa.int64(), _INTEGER)
    return values, _either(_some(doubt), more)


def _booleans(texts: pa.StringArray, yes: tuple[str, ...], no: tuple[str, ...]) -> Typed:
    words = pa.array((*yes, *no) if no else yes)
    codes = pc.index_in(texts, value_set=words)
    truth = pc.less(codes, len(yes)) if no else pc.equal(codes, 0)
    doubt = _some(_mask(codes.is_null()) & _mask(texts.is_valid())) if codes.null_count > texts.null_count else None
    return truth, doubt


def _chars(texts: pa.StringArray) -> Typed:
    encoded = texts.dictionary_encode()
    units = [ord(t) if len(t) == 1 and ord(t) < 0xFFFF else -1 for t in encoded.dictionary.to_pylist()]
    known = np.array([*units, 0], np.int64)
    found = known[encoded.indices.fill_null(len(units)).to_numpy(zero_copy_only=False)]
    null = _mask(texts.is_null()) if texts.null_count else None
    doubt = _some(found < 0)
    return pa.array(np.maximum(found, 0).astype(np.uint16), pa.uint16(), mask=null), doubt


def _unquote(tokens: pa.StringArray) -> tuple[pa.StringArray, Mask | None]:
    """Contents of JSON strings; a token that is no string is in doubt (and null)."""
    doubt: Mask | None = None
    offsets = offsets_of(tokens)
    if tokens.null_count < len(tokens):
        data = np.frombuffer(tokens.buffers()[2], np.uint8)
        starts = offsets[:-1]
        if tokens.null_count:
            valid = _mask(tokens.is_valid())
            quoted = np.ones(len(tokens), np.bool_)
            quoted[valid] = data[starts[valid]] == _QUOTE
        else:
            quoted = data[starts] == _QUOTE
        doubt = _some(~quoted)
        if doubt is not None:
            tokens = compact(pc.if_else(pa.array(quoted), tokens, None))
    texts = pc.binary_slice(tokens.view(pa.binary()), 1, -1).view(pa.string())
    if (bytes_of(tokens) == _BACKSLASH).any():
        escaped = pc.match_substring(tokens, "\\")
        plain = json.loads("[" + ",".join(tokens.filter(escaped).to_pylist()) + "]")
        texts = pc.replace_with_mask(texts, escaped.fill_null(False), pa.array(plain, pa.string()))
    return texts, doubt


def _mixed(texts: pa.StringArray, target: Target) -> Typed:
    """Instants where some texts have an offset, some have none, and some may be no instants at all."""
    has_offset = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    has_time = pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}")
    with_offset = pc.and_(has_offset, has_time)
    pattern = (
        r"^(1[7-9]|2[01])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
        r"([T ]([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?)?"
        r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?)?$"
    )
    simple = pc.match_substring_regex(texts, pattern)
    zoned = pc.cast(pc.if_else(pc.and_(simple, with_offset), texts, None), pa.timestamp("ns", "UTC"))
    doubt = ~_mask(simple, null=True)
    plain = pc.and_(simple, pc.invert(with_offset))
    if target.zone is None:
        doubt |= _mask(plain)
        return _join(_in_years(zoned), _some(doubt))
    local, gap = _from_local(pc.cast(pc.if_else(plain, texts, None), pa.timestamp("ns")), target.zone)
    merged = pc.coalesce(zoned, local)
    return _join(_in_years(merged), _either(gap, _some(doubt)))


def _from_local(local: pa.Array, zone: str) -> Typed:
    """Local times of a zone as Instants; times that the zone never showed are in doubt."""
    null = _mask(local.is_null()) if local.null_count else None
    plain = local.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    low, high = _SAFE_LOW, _SAFE_HIGH
    far = (plain < low) | (plain > high)
    utc, gap = zone_table(zone).to_utc(np.where(far, 0, plain))
    gap |= far
    if null is not None:
        gap &= ~null
    return instants(utc, null), _some(gap)


def _in_years(values: pa.Array, doubt: Mask | None = None) -> Typed:
    """Leaves Instants outside 1678 to 2261 in doubt, where an offset might have wrapped."""
    return values, _either(doubt, _outside(values.view(pa.int64()), _SAFE_LOW, _SAFE_HIGH))


def _outside(values: pa.Array, low: int, high: int) -> Mask | None:
    """Which int64 values lie outside ``low`` to ``high``; None if none does."""
    bounds = pc.min_max(values)
    smallest, largest = bounds["min"].as_py(), bounds["max"].as_py()
    if smallest is None or (smallest >= low and largest <= high):
        return None
    plain = values.fill_null(low).to_numpy(zero_copy_only=False)
    return _some((plain < low) | (plain > high))


def _try_cast(texts: pa.StringArray, to: pa.DataType, pattern: str | None) -> Typed:
    """A strict cast of all; if one fails, of those that match ``pattern``; without one, all are in doubt."""
    try:
        return pc.cast(texts, to), None
    except pa.ArrowInvalid:
        if pattern is None:
            return pa.nulls(len(texts), to), np.ones(len(texts), np.bool_)
    good = pc.match_substring_regex(texts, pattern)
    return pc.cast(pc.if_else(good, texts, None), to), _some(~_mask(good, null=True))


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


def _without(values: pa.Array, doubt: Mask | None) -> pa.Array:
    if doubt is None:
        return values
    rest = pc.if_else(pa.array(doubt), None, values)
    return compact(rest) if pa.types.is_string(values.type) else rest


def _mask(array: pa.Array, *, null: bool = False) -> Mask:
    found: Mask = array.fill_null(null).to_numpy(zero_copy_only=False)
    return found


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _either(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None or right is None:
        return right if left is None else left
    return left | right


def _join(made: Typed, doubt: Mask | None) -> Typed:
    return made[0], _either(made[1], doubt)
