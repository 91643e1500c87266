"""Values of typed columns (Parquet, data frames), whole and one by one, by the table of ``store.conversions``.

A row is also a text, exact and repairable by hand: a JSON object of the fields' values. What JSON has no number for is
a string that says it fully: ``"NaN"``, ``"12.50"`` for a decimal, ISO texts for dates and timestamps (with ``Z`` where
the type has a zone), base64 for bytes. Reading back, a string is therefore taken as the text of a value, not as a
string that happens to stand where a number should (``parquet.repaired``). A text that is not UTF-8 is an object with
its bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.content.lines import is_utf8
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.arrow_columns import Mask, Typed, compact, either, some, without
from sparkhaven.ingest.values.coded_values import coded_column, coded_scalar, has_settings, with_settings
from sparkhaven.ingest.values.exact_values import check_string, declared_value, from_json, from_text, number_value
from sparkhaven.ingest.values.instants import (
    INSTANT_LOW,
    UNITS_OF,
    check_instant,
    count_target,
    counted_column,
    counted_value,
    is_counted,
    local_instant,
)
from sparkhaven.ingest.values.json_text import Moment, NoTextError, WireValue, plain_text
from sparkhaven.ingest.values.typed_columns import csv_texts, null_alike, scaled_instants
from sparkhaven.ingest.values.typed_rows import Refusal, Value, not_utf8
from sparkhaven.store.conversions import number_arrays
from sparkhaven.store.conversions.conversion_table import (
    INTEGER_BITS,
    SIGNIFICANT,
    ConversionRule,
    Group,
    accepted_by,
    column_rule,
    rule,
    source_of,
)
from sparkhaven.store.conversions.hybrid_calendar import UTC_NAMES, UnsureInstants
from sparkhaven.store.conversions.number_arrays import DAY_MS, plain_scalar, takes_elements
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.instants import DAY_NS, UNIT_NS, clock_text, day_text, timestamp_text
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.codings.coding import Coding


@dataclass(frozen=True, slots=True)
class RowForm:
    """How fields are written that a column takes otherwise than as they look.

    ``counted``: dates, times and durations that are stored as numbers. ``texts``: values that are stored as their text.
    ``bytes_too``: bytes are texts; those that are not UTF-8 are an object, which nobody takes for a text.
    """

    counted: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    bytes_too: bool = False


def row_form(targets: Sequence[Target], *, bytes_too: bool = False) -> RowForm:
    counted = (target.source for target in targets if target.column.type.name in INTEGER_BITS)
    others = {target.source for target in targets if not target.as_text}
    texts = (target.source for target in targets if target.as_text and target.source not in others)
    return RowForm(frozenset(counted), frozenset(texts), bytes_too)


def row_text(fields: Mapping[str, pa.Scalar], form: RowForm) -> bytes:
    """The payload of a rejected row."""
    return json.dumps({name: _field(name, value, form) for name, value in fields.items()}).encode("ascii")


def nested_text(scalar: pa.Scalar) -> str:
    """A list, struct or map as it stands in such a payload."""
    return json.dumps(_plain(scalar), ensure_ascii=False)


def _field(name: str, scalar: pa.Scalar, form: RowForm) -> Any:
    group = source_of(scalar.type).group
    if scalar.is_valid and name in form.counted and group in (Group.DATE, Group.SPAN):
        return scalar.value // DAY_MS if pa.types.is_date64(scalar.type) else scalar.value
    if scalar.is_valid and group is Group.BYTES and form.bytes_too:
        data = scalar.as_py()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _base64(data)
    if scalar.is_valid and name in form.texts:
        with suppress(NoTextError):
            return scalar_text(scalar)
    return _plain(scalar)


def text_of(scalar: pa.Scalar) -> str:
    """A text as it is; UnicodeDecodeError for one that is not UTF-8."""
    return bytes(scalar.as_buffer()).decode("utf-8")


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode("ascii")}


def time_text(scalar: pa.Scalar) -> str:
    """A date or timestamp of any year as an ISO text."""
    kind = scalar.type
    if pa.types.is_date(kind):
        return day_text(scalar.value) if pa.types.is_date32(kind) else timestamp_text(scalar.value, "ms")
    return f"{timestamp_text(scalar.value, kind.unit)}{'Z' if kind.tz is not None else ''}"


def scalar_text(scalar: pa.Scalar) -> str:
    """The canonical text of a value (``ingest.values.json_text``). NoTextError for a text that is not UTF-8."""
    return plain_text(_structure(scalar))


def _structure(scalar: pa.Scalar) -> Any:
    """A value as ``json_text`` takes it. A map is an object if its keys are texts, else a list of pairs."""
    scalar = plain_scalar(scalar)
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_date(kind):
        return Moment("date", scalar.value if kinds.is_date32(kind) else scalar.value // DAY_MS, DAY_NS)
    if kinds.is_timestamp(kind):
        return Moment("local time" if kind.tz is None else "instant", scalar.value, UNIT_NS[kind.unit])
    if kinds.is_time(kind):
        return Moment("time of day", scalar.value, UNIT_NS[kind.unit])
    if kinds.is_duration(kind):
        return WireValue("duration", f"{scalar.value} {kind.unit}")
    if kinds.is_struct(kind):
        return {kind.field(index).name: _structure(scalar[index]) for index in range(kind.num_fields)}
    if kinds.is_map(kind):
        pairs = [[_structure(entry[0]), _structure(entry[1])] for entry in scalar.values]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else pairs
    if kinds.is_nested(kind):
        return [_structure(element) for element in scalar.values]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        try:
            return text_of(scalar)
        except UnicodeDecodeError as error:
            raise NoTextError(not_utf8(error)) from None
    value = scalar.as_py()
    return value if isinstance(value, bool | int | float | Decimal | bytes) else str(value)


def _plain(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    kind, kinds = scalar.type, pa.types
    if kinds.is_dictionary(kind):
        return _plain(scalar.value)
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return time_text(scalar)
    if kinds.is_time(kind):
        return clock_text(scalar.value * UNIT_NS[kind.unit])
    if kinds.is_duration(kind):
        return f"{scalar.value} {kind.unit}"
    if kinds.is_struct(kind):
        return {kind.field(index).name: _plain(scalar[index]) for index in range(kind.num_fields)}
    if kinds.is_map(kind):
        return [[_plain(entry[0]), _plain(entry[1])] for entry in scalar.values]
    if kinds.is_nested(kind):
        return [_plain(element) for element in scalar.values]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        try:
            return text_of(scalar)
        except UnicodeDecodeError:
            return _base64(bytes(scalar.as_buffer()))
    value: Any = scalar.as_py()
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return plain_text(value)
    return value if isinstance(value, str | int | float) else str(value)


SHOWN_BYTES = 256
_NUMBERS = frozenset({Group.WHOLE, Group.FLOATING, Group.DECIMAL})
_COUNTS = _NUMBERS | {Group.TEXT, Group.BYTES}  # what a count may be
_COUNTED = frozenset({Group.DATE, Group.SPAN})


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a batch, plain. ``far`` has, in ms, the timestamps of type INT96 that ``array`` cannot hold.

    ``old``: its timestamps are of type INT96, by a writer that does not say whether they are instants. ``unsure``: rows
    with an instant of the old calendar that is sure only if the writer's zone was UTC.
    """

    array: pa.Array
    far: pa.TimestampArray | None = None
    old: bool = False
    unsure: UnsureInstants | None = None

    def scalar(self, row: int) -> pa.Scalar:
        if self.far is not None and self.far[row].is_valid:
            return self.far[row]
        return self.array[row]


def show(value: pa.Scalar) -> str:
    if value.is_valid and (pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)):
        return time_text(value)
    try:
        return str(value)
    except (ValueError, OverflowError):  # inside it is a time that Python cannot hold, or a text that is not UTF-8
        return nested_text(value)[:SHOWN_BYTES] if pa.types.is_nested(value.type) else _hex(value)


def _hex(value: pa.Scalar) -> str:
    return bytes(value.as_buffer())[:SHOWN_BYTES].hex(" ")


def check_type(target: Target, declared: pa.DataType, file: str, *, bytes_too: bool = False) -> None:
    """SchemaMismatchError for a type of which no value can ever fit the column, with the options that are set."""
    name, origin = target.column.type.name, source_of(declared)
    if is_counted(target) and origin.group in _COUNTS:
        return check_type(replace(count_target(target), unit=target.unit), declared, file, bytes_too=bytes_too)
    cell, options = column_rule(origin, target.column.type), _options(target, bytes_too)
    counted = name == "Instant" and target.unit != "iso" and origin.group in (Group.TEXT, Group.BYTES)
    coding = target.column.type.coding
    fits = cell.takes(options) and (coding is None or _takes_elements(declared, target, coding, options))
    if fits and not (counted and "quoted" not in options):
        return None
    if cell.takes(options) and coding is not None and coding.elements == "Instant":
        cell = _element_rule(declared, coding)
        options -= {"zone"} if target.zone is None else set()
    lacking = [option for option in cell.options if option not in options] or ["quoted"] * counted
    if name in UNITS_OF and target.unit == "iso" and origin.group in _NUMBERS and "unit" not in lacking:
        lacking.append("unit")
    raise SchemaMismatchError(
        f"column {target.column.name} cannot be read from this Parquet column",
        where=file,
        column=target.column.name,
        expected=f"{accepted_by(target.column.type)}, for {name}",
        found=f"{target.source}: {declared}",
        hint=_hint(lacking),
    )


def _takes_elements(kind: pa.DataType, target: Target, coding: Coding, options: frozenset[str]) -> bool:
    """Whether an array takes elements of a type; those of instants by the settings of the column."""
    if coding.elements == "Instant" and has_settings(target) and hasattr(kind, "value_type"):
        return _element_rule(kind, coding).takes(options - ({"zone"} if target.zone is None else set()))
    return takes_elements(kind, coding)


def _element_rule(kind: pa.DataType, coding: Coding) -> ConversionRule:
    return rule(source_of(getattr(kind, "value_type", kind)), str(coding.elements))


def _hint(lacking: list[str]) -> str:
    ways = ["set binary_as_text = true in [feed] if the bytes are texts"] * ("binary_as_text" in lacking)
    ways += [f"set {option} for the column" for option in lacking if option != "binary_as_text"]
    return "; ".join([*ways, "map another column with `from`, or correct the producer"])


def _options(target: Target, bytes_too: bool) -> frozenset[str]:
    """The options that are set. A zone counts as set: without one each value is a bad row of its own."""
    form = target.form
    settings = {
        "zone": True,
        "unit": target.unit != "iso",
        "binary_as_text": bytes_too,
        "quoted": form is not None and (form.quoted or bool(form.true)),
        "as_text": form is not None and form.as_text,
    }
    return frozenset(option for option, is_set in settings.items() if is_set)


def typed_values(column: SourceColumn, target: Target) -> Typed:
    """Typed values and rows in doubt, as in ``ingest.values.typed_columns``."""
    values, doubt = _typed(column.array, target)
    if column.far is not None:
        doubt = either(doubt, column.far.is_valid().to_numpy(zero_copy_only=False))
    if column.unsure is not None:
        doubt = either(doubt, column.unsure.rows.to_numpy(zero_copy_only=False))
    return values, doubt


def _typed(array: pa.Array, target: Target) -> Typed:
    name, group = target.column.type.name, source_of(array.type).group
    if is_counted(target) and group in _COUNTS:
        return counted_column(_typed(array, count_target(target)), target)
    if (coding := target.column.type.coding) is not None:
        if target.form is not None and group is Group.TEXT:
            return _valid_texts(array.cast(pa.string()), target)
        if coding.elements is not None and has_settings(target):  # its elements follow them one by one
            return pa.nulls(len(array), coding.arrow), array.is_valid().to_numpy(zero_copy_only=False)
        return coded_column(array, coding)
    if group is Group.NULL:
        return pa.nulls(len(array), target.column.type.arrow), None
    if group is Group.TEXT:
        return _valid_texts(array.cast(pa.string()), target)
    if group is Group.BYTES:
        return _bytes(array.cast(pa.binary()), target)
    if group is Group.BOOLEAN and name == "Boolean":
        return array, None
    if group is Group.TIMESTAMP and name == "Instant":
        return scaled_instants(array.view(pa.int64()), replace(target, unit=array.type.unit))
    if group in _NUMBERS and name != "String":
        return _from_numbers(array, target)
    if group in _COUNTED and name in INTEGER_BITS:
        counts, bad = number_arrays.counts(array)
        values, doubt = _from_numbers(counts, target)
        return values, either(doubt, some(bad))
    return pa.nulls(len(array), target.column.type.arrow), array.is_valid().to_numpy(zero_copy_only=False)


def _from_numbers(array: pa.Array, target: Target) -> Typed:
    name = target.column.type.name
    if name == "Boolean" and target.form is not None and target.form.true:
        return csv_texts(array.cast(pa.string()), target)
    if name == "Instant":
        if not pa.types.is_integer(array.type):
            return pa.nulls(len(array), target.column.type.arrow), array.is_valid().to_numpy(zero_copy_only=False)
        counts, bad = number_arrays.integers(array, 64)
        values, doubt = scaled_instants(without(counts, some(bad)), target)
        return values, either(doubt, some(bad))
    if name in INTEGER_BITS:
        values, bad = number_arrays.integers(array, INTEGER_BITS[name])
    elif name in SIGNIFICANT:
        values, bad = number_arrays.floats(array, target.column.type.width * 8, lossy=target.lossy)
    else:
        values, bad = number_arrays.booleans(array) if name == "Boolean" else number_arrays.chars(array)
    return values, either(some(bad), null_alike(values, target))


def _valid_texts(texts: pa.StringArray, target: Target) -> Typed:
    """Texts of a source that promises UTF-8, and may not keep to it."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _bytes(texts.view(pa.binary()), target)
    return _texts(texts, target)


def _texts(texts: pa.StringArray, target: Target) -> Typed:
    if target.form is not None and target.form.quoted:
        texts = compact(pc.if_else(pc.equal(texts, ""), None, texts))
    return csv_texts(texts, target)


def _bytes(array: pa.BinaryArray, target: Target) -> Typed:
    try:
        return _texts(array.cast(pa.string()), target)
    except pa.ArrowInvalid:
        odd: Mask = np.array([not is_utf8(value or b"") for value in array.to_pylist()], np.bool_)
    values, doubt = _texts(pc.if_else(pa.array(odd), None, array).cast(pa.string()), target)
    return values, either(doubt, odd)


def exact_value(column: SourceColumn, row: int, target: Target, alias: bool) -> Value | Refusal:
    """One value by the rules of ``ingest.values.exact_values``."""
    scalar = column.scalar(row)
    if not scalar.is_valid:
        return None
    kind, name, group = scalar.type, target.column.type.name, source_of(scalar.type).group
    if column.unsure is not None and column.unsure.rows[row].as_py() and not _beyond(scalar, target):
        settled = target.zone in UTC_NAMES and column.unsure.zone is None
        if not settled:
            return _of_old_calendar(column.unsure, target)
    if is_counted(target) and group in _COUNTS:
        return counted_value(exact_value(column, row, count_target(target), alias), target)
    if (coding := target.column.type.coding) is not None:
        return _coded(scalar, target, coding, alias)
    if name == "String" and group not in (Group.TEXT, Group.BYTES):
        return _as_text(scalar, target)
    if group is Group.TIMESTAMP:
        return check_instant(scalar.value * UNIT_NS[kind.unit], target, alias)
    if group is Group.LOCAL:
        local = local_instant(scalar.value * UNIT_NS[kind.unit], target, alias)
        return _of_unknown_writer(local, target) if column.old else local
    if group in _COUNTED:
        return _counted(scalar, target, alias)
    if group not in (Group.TEXT, Group.BYTES):
        return number_value(scalar.as_py(), target, alias)
    try:
        text = text_of(scalar)
    except UnicodeDecodeError as error:
        return not_utf8(error)
    return None if target.form is not None and target.form.quoted and not text else from_text(text, target, alias)


def _coded(scalar: pa.Scalar, target: Target, coding: Coding, alias: bool) -> Value | Refusal:
    try:
        if target.form is not None and source_of(scalar.type).group is Group.TEXT:
            return from_json(text_of(scalar), target, alias)
        return coded_scalar(scalar, coding, alias, with_settings(declared_value, target))
    except UnicodeDecodeError as error:
        return not_utf8(error)


def _as_text(scalar: pa.Scalar, target: Target) -> Value | Refusal:
    try:
        return check_string(scalar_text(scalar), target)
    except NoTextError as error:
        return error.refusal


def _counted(scalar: pa.Scalar, target: Target, alias: bool) -> Value | Refusal:
    kind, count = scalar.type, scalar.value
    if target.column.type.name == "Instant":
        return local_instant(count * (DAY_NS if pa.types.is_date32(kind) else UNIT_NS["ms"]), target, alias)
    if pa.types.is_date64(kind):
        count, rest = divmod(count, number_arrays.DAY_MS)
        if rest:
            return Refusal(Reason.NO_WHOLE_DAY, "a date")
    return from_json(count, target, alias)


def _beyond(scalar: pa.Scalar, target: Target) -> bool:
    """Whether an instant lies outside of the range of an Instant, in whatever zone it was written."""
    counted = target.column.type.name == "Instant" and pa.types.is_timestamp(scalar.type)
    return counted and scalar.value * UNIT_NS[scalar.type.unit] < INSTANT_LOW


def _of_old_calendar(unsure: UnsureInstants, target: Target) -> Refusal:
    again = "have Spark 3 or later write the file again"
    if unsure.zone is not None:
        return Refusal(Reason.OLD_CALENDAR, f"an instant that {unsure.zone} does not make doubtful: {again}")
    name = target.column.name
    return Refusal(Reason.OLD_CALENDAR, f'for column {name} zone = "UTC" if Spark wrote it in UTC, else {again}')


def _of_unknown_writer(local: Value | Refusal, target: Target) -> Value | Refusal:
    if not isinstance(local, Refusal) or target.zone is not None:
        return local
    way = 'zone = "UTC" if the writer stores instants as INT96, else the zone of its clocks'
    expected = f"for column {target.column.name} {way}"
    return Refusal(Reason.UNKNOWN_INT96, expected)
