"""Payloads that hold one record each, in a binary format with a schema: what Avro and Protobuf have in common.

One pass of the compiled scanner (``ingest.formats.scan.scan_columns``) takes the records that are certain. The rest,
and all where there is no scanner, are decoded one by one, whole before any column is touched. So a damaged payload is a
bad row and no neighbour knows of it. What a format has to say for itself is in ``RecordFormat``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row, exact_rows, tried
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.scan.scan_columns import RecordScanner
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.coded_values import coded_value, with_settings
from sparkhaven.ingest.values.exact_values import check_integer, declared_value, from_json, number_value
from sparkhaven.ingest.values.instants import (
    check_instant,
    count_target,
    counted_value,
    is_counted,
    local_instant,
    with_ways,
)
from sparkhaven.ingest.values.json_text import NoTextError, json_text, plain_text
from sparkhaven.ingest.values.refusals import Refusal, Value, attempted, not_utf8
from sparkhaven.ingest.values.typed_rows import TypedRows, left_over, merge_rows, no_columns
from sparkhaven.ingest.values.wire_values import Moment, WireValue
from sparkhaven.store.conversions import conversion_table
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, rule
from sparkhaven.store.quarantine.rejected_rows import Reason

Record = TypeVar("Record")
SHOWN_BYTES = 256
_NUMBERS = (int, float, Decimal)
_SOURCES = {
    "instant": conversion_table.TIMESTAMP,
    "local time": conversion_table.LOCAL,
    "date": conversion_table.DATE,
    "time of day": conversion_table.TIME,
}
_BYTES = "bytes with binary_as_text = true in [feed] (text), or as_text = true (base64)"


class NotARecordError(ValueError):
    """A payload that its schema does not decode; the text says why."""


class RecordFormat(Protocol[Record]):
    """One format: payload to record, record to the value of a target by its index."""

    format: str
    not_a_record: Reason

    def scanner(self, payload: bytes) -> RecordScanner | None:
        """The scanner of records that are written as this one is; None where there is none."""

    def read(self, payload: bytes) -> Record:
        """The record of a payload; NotARecordError if it is none, or if anything is left over."""

    def value(self, record: Record, index: int) -> Value | Refusal:
        """The value of a target, None for null, or why there is none."""

    def shown(self, record: Record, index: int) -> str:
        """What stands there, for people."""

    def unknown(self, record: Record) -> Iterable[str]:
        """Dotted names of the fields that no target takes."""

    def absent(self, record: Record) -> Iterable[int]:
        """The targets, by index, of which its schema has no field."""


class RecordDecoder:
    """Decoder of the payloads of one stream. ``uncounted`` names fields that are not stored and not counted.

    ``strict``: records with other fields than these are bad.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        uncounted: Iterable[str],
        records: RecordFormat[Any],
        *,
        strict: bool = False,
    ) -> None:
        self._targets, self._known, self._records = tuple(targets), frozenset(uncounted), records
        self._strict = strict

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Typed rows of framed payloads; bad rows go to ``rejects``."""
        rejects.read += len(block)
        numbers, fast, columns = block.numbers, np.empty(0, np.int64), no_columns(self._targets)
        doubtful = np.arange(len(block), dtype=np.int64)
        scanner = self._records.scanner(block.line(0)) if len(block) else None
        scanned = None if scanner is None else tried(partial(scanner.scan, block), rejects)
        if scanned is not None and self._strict and not scanned.unknown.keys() <= self._known:
            scanned = None  # record by record, which of them it is
        if scanned is not None:
            fast, columns = scanned.records, scanned.columns
            doubtful = left_over(len(block), fast)
            rejects.ignored.update({name: n for name, n in scanned.unknown.items() if name not in self._known})
        outcomes = (
            (index, self._one(block.line(index), file, int(numbers[index]), rejects)) for index in doubtful.tolist()
        )
        return merge_rows(numbers, fast, columns, *exact_rows(outcomes, rejects), self._targets)

    def _one(self, payload: bytes, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        records = self._records
        try:
            record = records.read(payload)
        except NotARecordError as error:
            refusal = Refusal(records.not_a_record, f"a record of {records.format} by the schema", str(error))
            return bad_row(file, number, None, refusal, payload[:SHOWN_BYTES].hex(" "), payload)
        unknown = [name for name in records.unknown(record) if name not in self._known]
        absent = [self._targets[index] for index in records.absent(record)]
        if self._strict and (unknown or absent):
            expected = ", ".join(target.source for target in absent or self._targets)
            why = Refusal(Reason.UNKNOWN_FIELD if unknown else Reason.ABSENT_FIELD, expected)
            return bad_row(file, number, None, why, ", ".join(unknown), payload)
        values: list[Value] = []
        for index, target in enumerate(self._targets):
            value = attempted(records.value, record, index)
            if isinstance(value, Refusal):
                shown = records.shown(record, index)
                return bad_row(file, number, target.column.name, value, shown, payload)
            values.append(value)
        rejects.ignored.update(unknown)
        rejects.absent.update(target.column.name for target in absent)
        return values


def from_binary(value: Any, target: Target, alias: bool = False, *, bytes_too: bool = False) -> Value | Refusal:
    """A value of a format that has numbers in binary: the rules are those of JSON, and NaN is a number.

    ``bytes_too``: bytes may be texts in UTF-8.
    """
    if is_counted(target) and isinstance(value, (str, *_NUMBERS)):
        return counted_value(from_binary(value, count_target(target), alias), target)
    if (coding := target.column.type.coding) is not None:
        if value is None:
            return None
        if target.form is not None and isinstance(value, str) and "text" in coding.sources:
            return from_json(value, target, alias)
        return with_ways(coded_value(value, coding, alias, with_settings(declared_value, target)), target)
    if isinstance(value, bytes | bytearray) and bytes_too:
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError as error:
            return not_utf8(error)
    if isinstance(value, UUID):
        value = str(value)
    if target.as_text:
        return _as_text(value, target, alias)
    if isinstance(value, bytes | bytearray):
        return Refusal(Reason.WRONG_TYPE, f"a value for {target.column.type.name}, or {_BYTES}", "bytes")
    if isinstance(value, WireValue):
        return Refusal(Reason.WRONG_TYPE, "a String with as_text = true", value.kind)
    if isinstance(value, Moment):
        return _moment(value, target, alias)
    return number_value(value, target, alias) if isinstance(value, _NUMBERS) else from_json(value, target, alias)


def shown_value(value: Any) -> str:
    try:
        return json_text(value)
    except NoTextError:
        return str(value)


def _as_text(value: Any, target: Target, alias: bool) -> Value | Refusal:
    try:
        return None if value is None else from_json(plain_text(value), target, alias)
    except NoTextError as error:
        return error.refusal


def _moment(value: Moment, target: Target, alias: bool) -> Value | Refusal:
    name = target.column.type.name
    if name == "Instant" and value.kind == "instant":
        return check_instant(value.ns, target, alias)
    if name == "Instant" and value.kind != "time of day":
        return local_instant(value.ns, target, alias)
    if name in INTEGER_BITS and rule(_SOURCES[value.kind], name).takes():
        return check_integer(value.count, name, alias)
    expected = f"a value for {name}. An int or long takes dates and times, a String with as_text takes all"
    return Refusal(Reason.WRONG_TYPE, expected, value.kind)
