"""Values of columns whose type has a codec (dates, decimals, arrays, ...), one by one and whole.

What a value is, the codings of ``store.types.codings`` say; here is what each kind of source gives them.
"""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.values.arrow_columns import Mask, Typed, either, mask_of, offsets_of, some
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.wire_values import DAY_NS, Moment
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.types.codings.coding import Coding, Unfit, UnfitError

_REASONS = {
    Unfit.NO_VALUE: Reason.NO_VALUE_OF_TYPE,
    Unfit.OVERFLOW: Reason.OVERFLOW,
    Unfit.NOT_EXACT: Reason.NOT_EXACT,
}
_QUOTE = 0x22


def coded_json(value: Any, coding: Coding) -> Value | Refusal:
    """A JSON value other than null."""
    try:
        return coding.from_json(value)  # type: ignore[no-any-return]
    except UnfitError as error:
        return Refusal(_REASONS[error.why], error.expected)


def coded_text(text: str, coding: Coding) -> Value | Refusal:
    """A field of a CSV file, or a text of another source."""
    try:
        return coding.parse(text)  # type: ignore[no-any-return]
    except UnfitError as error:
        return Refusal(_REASONS[error.why], error.expected)


def coded_value(value: Any, coding: Coding) -> Value | Refusal:
    """A value of a source with types of its own: a moment, a number, bytes, a list, a dict or a text."""
    if isinstance(value, Moment):
        if value.kind == "date" and pa.types.is_date(coding.arrow):
            return _scalar_of(value.ns // DAY_NS, pa.int32(), coding)
        if value.kind == "time of day" and pa.types.is_time(coding.arrow):
            return _scalar_of(value.ns, pa.int64(), coding)
        return Refusal(Reason.WRONG_TYPE, coding.domain, value.kind)
    if isinstance(value, bytes | bytearray) and pa.types.is_binary(coding.arrow):
        return _scalar_of(bytes(value), pa.binary(), coding)
    if isinstance(value, float):
        value = Decimal(value) if np.isfinite(value) else value
    return coded_json(value, coding)


def _scalar_of(value: Any, kind: pa.DataType, coding: Coding) -> Value | Refusal:
    """A value of a source's Arrow type, converted; what it is not able to hold is refused."""
    try:
        plain = pa.array([value], kind)
        stamps = plain if pa.types.is_binary(kind) else plain.view(coding.arrow)
    except (pa.ArrowException, OverflowError):
        return Refusal(Reason.OVERFLOW, coding.domain)
    values, doubt = _converted(stamps, coding)
    if doubt is not None and doubt[0]:
        return Refusal(Reason.NOT_EXACT, coding.domain)
    return value if pa.types.is_time(coding.arrow) else values[0].as_py()  # type: ignore[no-any-return]


def coded_tokens(tokens: pa.StringArray, coding: Coding) -> Typed:
    """Whole columns of JSON texts, as the scanner cuts them out."""
    if coding.json in ("array", "object"):
        return _nested_tokens(tokens, coding)
    texts, doubt = _unquoted(tokens, numbers=coding.json == "number")
    values, more = coding.parse_all(texts)
    return _stored(values, coding, either(doubt, more))


def coded_texts(texts: pa.StringArray, coding: Coding) -> Typed:
    """Whole columns of CSV fields; null texts are null already."""
    values, doubt = coding.parse_all(texts)
    return _stored(values, coding, doubt)


def coded_column(array: pa.Array, coding: Coding) -> Typed:
    """A whole column of a typed source; values that the column cannot hold are in doubt."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), coding.arrow), None
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return coded_texts(array.cast(pa.string()), coding)
    return _converted(array, coding)


def coded_scalar(scalar: pa.Scalar, coding: Coding) -> Value | Refusal:
    """One value of a typed source, which is in doubt."""
    if pa.types.is_string(scalar.type) or pa.types.is_large_string(scalar.type):
        return coded_text(scalar.as_py(), coding)
    if pa.types.is_integer(scalar.type) or pa.types.is_decimal(scalar.type) or pa.types.is_nested(scalar.type):
        value = scalar.as_py()
        return coded_json(dict(value) if pa.types.is_map(scalar.type) else value, coding)
    return Refusal(Reason.NOT_EXACT, coding.domain, str(scalar)[:80])


def _converted(array: pa.Array, coding: Coding) -> Typed:
    try:
        values, doubt = coding.convert(array)
    except UnfitError:
        return pa.nulls(len(array), coding.arrow), some(np.asarray(array.is_valid()))
    return _stored(values, coding, doubt)


def _stored(values: pa.Array, coding: Coding, doubt: Mask | None) -> Typed:
    """Values of which no bytes can be made are in doubt, too."""
    return values, either(doubt, coding.unstorable(values))


def _unquoted(tokens: pa.StringArray, *, numbers: bool) -> tuple[pa.StringArray, Mask | None]:
    """Contents of strings without escapes, and numbers as they stand; others are in doubt, and null."""
    if tokens.null_count == len(tokens):
        return tokens, None
    offsets = offsets_of(tokens)
    data = np.frombuffer(tokens.buffers()[2], np.uint8)
    valid = mask_of(tokens.is_valid())
    quoted = np.zeros(len(tokens), np.bool_)
    quoted[valid] = data[offsets[:-1][valid]] == _QUOTE
    escaped = mask_of(pc.match_substring(tokens, "\\"))
    doubt = valid & (escaped if numbers else escaped | ~quoted)
    if numbers:
        first = data[np.minimum(offsets[:-1], len(data) - 1)]
        doubt |= valid & ((first == ord("t")) | (first == ord("f")))
    inner = pc.binary_slice(tokens.view(pa.binary()), 1, -1).view(pa.string())
    texts = inner if quoted[valid].all() else pc.if_else(pa.array(quoted), inner, tokens)
    if doubt.any():
        texts = pc.if_else(pa.array(doubt), None, texts)
    return texts, some(doubt)


def _nested_tokens(tokens: pa.StringArray, coding: Coding) -> Typed:
    """Arrays of numbers as Arrow's JSON reader takes them; if it refuses one of them, all are in doubt."""
    valid = np.asarray(tokens.is_valid())
    everything = pa.nulls(len(tokens), coding.arrow), some(valid)
    element = coding.arrow.value_type if pa.types.is_list(coding.arrow) else None
    if element is None or pa.types.is_uint16(element) or not valid.any():
        return everything
    import pyarrow.json

    rows = pc.binary_join_element_wise('{"v":', pc.fill_null(tokens, "null"), "}", "")
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(rows)], rows), "\n")[0].as_buffer()
    form = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([("v", coding.arrow)]), unexpected_field_behavior="error"
    )
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=max(1 << 20, lines.size + 1))
    try:
        column = pyarrow.json.read_json(io.BytesIO(lines), options, form).column(0)
    except pa.ArrowInvalid:
        return everything
    values = column.combine_chunks().cast(coding.arrow)
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    return _stored(values, coding, None) if len(values) == len(tokens) else everything
