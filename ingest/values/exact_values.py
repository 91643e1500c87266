"""One value at a time, exactly: what each column type accepts, and why it refuses the rest.

This is the definition. The vectorised conversions in ``ingest.values.typed_columns`` only ever take values that they
can prove to come out the same; every row in doubt is decided here. A value is the one ``pyarrow.array`` takes for the
type of the column (an Instant is ns since the epoch, a char its UTF-16 unit), or None for null, or a ``Refusal``.

* Whole numbers: ``3.0`` and ``3e0`` are 3, ``3.5`` has a fraction; nothing is rounded or wrapped.
* double: the nearest double of any number that a text writes. float: the nearest float of that double. Numbers of a
  type (Parquet, Avro) are stored exactly, or with ``lossy`` the nearest one: ``check_float``.
* A value equal to the type's null sentinel is refused (or, with ``alias``, becomes null).
* Instant: ISO texts with offset, or local texts in the zone of the column; or a number in its unit, exact to the
  nanosecond.
* JSON types are strict: a number in quotes is a string.

Values of typed sources go into columns of every type by the table of conversions.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from sparkhaven.ingest.spec import Target, TextForm
from sparkhaven.ingest.values.coded_values import coded_json, coded_text, with_settings
from sparkhaven.ingest.values.instants import (
    EXAMPLE,
    check_instant,
    count_target,
    counted_value,
    epoch_instant,
    is_counted,
    iso_instant,
    local_instant,
    settled,
    with_ways,
)
from sparkhaven.ingest.values.json_text import Moment, exact_number, plain_text
from sparkhaven.ingest.values.text_forms import clean, words
from sparkhaven.ingest.values.typed_rows import Refusal, Value
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, SIGNIFICANT
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.datatypes import CHAR_NULL, DOUBLE_NULL, FLOAT_NULL

PYTHON_CHARSETS = {
    "ISO_8859_1": "latin-1",
    "UTF_8": "utf-8",
    "US_ASCII": "ascii",
    "UTF_16": "utf-16-be",
    "UTF_16BE": "utf-16-be",
    "UTF_16LE": "utf-16-le",
}
NUL_IS_ONE_BYTE = frozenset({"ISO_8859_1", "UTF_8", "US_ASCII"})

_NUMBERS = (int, Decimal)  # a tuple: a union would be made for each value
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z", re.ASCII)
SPECIAL_TEXT = re.compile(r"[+-]?(nan|NaN|inf|Inf|Infinity|infinity)\Z")


def integer_range(type_name: str) -> tuple[int, int]:
    """Smallest and largest value of a whole-number type; the sentinel below the smallest is not among them."""
    half = 1 << (INTEGER_BITS[type_name] - 1)
    return -half + 1, half - 1


def is_number(text: str) -> bool:
    """Whether a text writes a finite number."""
    return _NUMBER_TEXT.match(text) is not None


def from_json(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value as ``json.loads`` gives it, with numbers by ``exact_number``."""
    if value is None:
        return None
    name = target.column.type.name
    if is_counted(target):
        return counted_value(from_json(value, count_target(target)), target)
    if (coding := target.column.type.coding) is not None:
        if target.form is not None and isinstance(value, str):
            return None if target.form.quoted and not value else from_text(value, target, alias)
        return with_ways(coded_json(value, coding, alias, with_settings(from_json, target)), target)
    if target.as_text and not isinstance(value, str):
        value = plain_text(value)
    number = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    if target.form is not None and not isinstance(value, bool) and (number or isinstance(value, str)):
        return _formed(value, target, target.form, alias)
    if name in INTEGER_BITS:
        return check_integer(value, name, alias) if number else _wrong(value, "a number")
    if name in ("double", "float"):
        return _floating(nearest_double(value), name, alias) if number else _wrong(value, "a number")
    if name == "Boolean":
        return value if isinstance(value, bool) else _wrong(value, "true or false")
    if name == "Instant":
        if target.unit == "iso":
            if not isinstance(value, str):
                return _wrong(value, "a text like " + EXAMPLE)
            return settled(iso_instant(value, target, alias), target)
        if not number:
            return _wrong(value, f"a number in {target.unit}")
        return settled(epoch_instant(Decimal(value), target, alias), target)
    if not isinstance(value, str):
        return _wrong(value, "a string")
    return _char(value, alias) if name == "char" else check_string(value, target)


def _formed(value: str | int | Decimal, target: Target, form: TextForm, alias: bool) -> Value | Refusal:
    """A JSON string or number of a column with a form of its own."""
    name, strict = target.column.type.name, replace(target, form=None)
    if name == "Boolean" and form.true:
        text = str(value)
        return None if form.quoted and not text else from_text(text, target, alias)
    if not isinstance(value, str):
        return from_json(value, strict, alias)
    if name in ("String", "char") or (name == "Instant" and target.unit == "iso"):
        cleaned = clean(value, target)
        return cleaned if isinstance(cleaned, Refusal) else from_json(cleaned, strict, alias)
    if not form.quoted:
        return from_json(value, strict, alias)
    return None if not value else from_text(value, target, alias)


def from_text(text: str, target: Target, alias: bool = False) -> Value | Refusal:
    """A field of a CSV file that is not a null text."""
    name = target.column.type.name
    if is_counted(target):
        return counted_value(from_text(text, count_target(target)), target)
    if target.form is not None:
        cleaned = clean(text, target)
        if cleaned is None or isinstance(cleaned, Refusal):
            return cleaned
        text = cleaned
    if (coding := target.column.type.coding) is not None:
        return with_ways(coded_text(text, coding, alias, with_settings(from_json, target)), target)
    if name in INTEGER_BITS:
        if _INTEGER_TEXT.match(text) and len(text) < 4000:
            return check_integer(int(text), name, alias)
        return check_integer(exact_number(text), name, alias) if _NUMBER_TEXT.match(text) else _no_number(name)
    if name in ("double", "float"):
        if SPECIAL_TEXT.match(text):
            return float(text)
        return (
            _floating(nearest_double(exact_number(text)), name, alias) if _NUMBER_TEXT.match(text) else _no_number(name)
        )
    if name == "Boolean":
        yes, no = words(target)
        if text in yes or text in no:
            return text in yes
        return Refusal(Reason.NOT_A_BOOLEAN, f"{yes[0]} or {no[0]}")
    if name == "Instant":
        if target.unit == "iso":
            return settled(iso_instant(text, target, alias), target)
        if not _NUMBER_TEXT.match(text):
            return Refusal(Reason.NOT_A_NUMBER, f"a number in {target.unit}")
        return settled(epoch_instant(exact_number(text), target, alias), target)
    return _char(text, alias) if name == "char" else check_string(text, target)


def check_float(value: float | Decimal, target: Target, alias: bool = False) -> Value | Refusal:
    """A number of a typed source in a float or double: exactly, or with ``lossy`` the nearest one.

    NaN and the infinities are values.
    """
    name = target.column.type.name
    if isinstance(value, float) and not math.isfinite(value):
        return value
    rounded = nearest_double(value) if name == "double" else nearest_float(value)
    if not target.lossy:
        if not math.isfinite(rounded):
            return Refusal(Reason.OVERFLOW, _range_text(name))
        if rounded != value:
            expected = f"a number that a {name} holds, or lossy = true for the column"
            return Refusal(Reason.NOT_EXACT, expected)
    null = DOUBLE_NULL if name == "double" else FLOAT_NULL
    if rounded == null:
        return None if alias else Refusal(Reason.NULL_ALIAS, _range_text(name))
    return rounded


def _wrong(value: Any, expected: str) -> Refusal:
    labels = ((bool, "boolean"), (str, "string"), (dict, "object"), (list, "array"))
    label = next((label for kind, label in labels if isinstance(value, kind)), "number")
    return Refusal(Reason.WRONG_JSON_TYPE, expected, label)


def _no_number(name: str) -> Refusal:
    return Refusal(Reason.NOT_A_NUMBER, _range_text(name))


def _range_text(name: str) -> str:
    if name in INTEGER_BITS:
        low, high = integer_range(name)
        return f"a whole number from {low} to {high}"
    return f"a number within the range of {name}"


def check_integer(value: int | Decimal, name: str, alias: bool = False) -> Value | Refusal:
    """A whole number in the range of its type."""
    low, high = integer_range(name)
    if isinstance(value, Decimal):
        if not value.is_finite() or (value and value.adjusted() > 20):
            return Refusal(Reason.OVERFLOW, _range_text(name))
        if value and (value.adjusted() < 0 or value % 1):
            return Refusal(Reason.FRACTION, _range_text(name))
        value = int(value)
    if value == low - 1:
        return None if alias else Refusal(Reason.NULL_ALIAS, _range_text(name))
    return value if low <= value <= high else Refusal(Reason.OVERFLOW, _range_text(name))


def nearest_double(value: float | Decimal) -> float:
    """The nearest double, infinite beyond the largest one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def nearest_float(value: float | Decimal) -> float:
    """The nearest float32, rounded once: by way of the double beside the number whose last bit is odd."""
    double = nearest_double(value)
    if math.isfinite(double) and double != value and not _is_odd(double):
        double = math.nextafter(double, math.inf if value > double else -math.inf)
    with np.errstate(over="ignore"):
        return float(np.float32(double))


def _is_odd(double: float) -> bool:
    return bool(struct.pack("<d", double)[0] & 1)


def _floating(value: float, name: str, alias: bool) -> Value | Refusal:
    null = DOUBLE_NULL
    if name == "float":
        null = FLOAT_NULL
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if not math.isfinite(value):
        return Refusal(Reason.OVERFLOW, _range_text(name))
    if value == null:
        return None if alias else Refusal(Reason.NULL_ALIAS, _range_text(name))
    return value


def _char(text: str, alias: bool) -> Value | Refusal:
    if len(text) != 1 or ord(text) > 0xFFFF:
        return Refusal(Reason.NOT_ONE_CHARACTER, "one UTF-16 unit")
    if 0xD800 <= ord(text) <= 0xDFFF:
        return Refusal(Reason.HALF_A_PAIR, "one UTF-16 unit that is a character")
    if text == "\uffff":
        return None if alias else Refusal(Reason.NULL_ALIAS, "a character other than U+FFFF")
    return ord(text)


def check_string(text: str, target: Target) -> str | Refusal:
    """A text as the column can store it, or why it cannot."""
    charset = target.column.encoding or "UTF_8"
    if text == "\x00" and charset in NUL_IS_ONE_BYTE:
        return Refusal(Reason.READS_BACK_EMPTY, f"anything but the single character U+0000 in {charset}")
    try:
        text.encode(PYTHON_CHARSETS[charset])
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        character = text[error.start]
        return Refusal(Reason.NOT_IN_CHARSET, f"text in {charset}", f"U+{ord(character):04X}")
    return text


def number_value(value: Any, target: Target, alias: bool) -> Value | Refusal:
    """A number or boolean of a typed source."""
    name = target.column.type.name
    if name in SIGNIFICANT and not isinstance(value, bool):
        return check_float(value, target, alias)
    if isinstance(value, float):
        if not math.isfinite(value):
            return Refusal(Reason.NOT_FINITE, f"a value for {name}", str(value))
        value = Decimal(value)
    if name == "char" and not isinstance(value, bool):
        return _unit(value, alias)
    if name == "Boolean" and not isinstance(value, bool) and (target.form is None or not target.form.true):
        return bool(value) if value in (0, 1) else Refusal(Reason.NOT_0_OR_1, "0 for false, 1 for true")
    return from_json(value, target, alias)


def declared_value(value: Any, target: Target, alias: bool) -> Value | Refusal:
    """A value of a typed source that may be no number."""
    if value is None or isinstance(value, str):
        return from_json(value, target, alias)
    if isinstance(value, Moment) and value.kind != "time of day" and target.column.type.name == "Instant":
        return (check_instant if value.kind == "instant" else local_instant)(value.ns, target, alias)
    if not isinstance(value, int | float | Decimal):
        return Refusal(Reason.WRONG_TYPE, f"a value for {target.column.type.name}", type(value).__name__)
    return number_value(value, target, alias)


def _unit(value: int | Decimal, alias: bool) -> Value | Refusal:
    """A UTF-16 unit by its number."""
    if value == CHAR_NULL:
        return None if alias else Refusal(Reason.NULL_ALIAS, "a UTF-16 unit other than U+FFFF")
    whole = isinstance(value, int) and 0 <= value <= 0xFFFF
    return int(value) if whole else Refusal(Reason.NOT_ONE_CHARACTER, "a UTF-16 unit")
