"""Payloads that hold one record each, in a binary format with a schema: what Avro and Protobuf have in common.

One pass of the compiled scanner (``ingest.formats.scan``) takes the records that are certain. The rest,
and all where there is no scanner, are decoded one by one, whole before any column is touched. So a damaged payload is a
bad row and no neighbour knows of it. What a format has to say for itself is in ``RecordFormat``.

Before a payload may stand the frame of a schema registry, as Confluent's serializers write it: a zero byte and the id
of a schema in four bytes, big-endian. Before a Protobuf message the path of its type follows: how many indexes there
are and each of them, as zigzag numbers. A zero stands for the first message. Frames of others are not read, but named
in the reason of a bad row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import RFC_4122, UUID

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row, exact_rows, tried
from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.formats.scan import RecordScanner
from sparkhaven.ingest.spec import Target
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
from sparkhaven.ingest.values.json_text import Moment, NoTextError, WireValue, json_text, plain_text
from sparkhaven.ingest.values.typed_rows import (
    Refusal,
    TypedRows,
    Value,
    attempted,
    left_over,
    merge_rows,
    no_columns,
    not_utf8,
)
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
HEAD = struct.Struct(">bI")
LIKELY_IDS = 1 << 24  # a payload whose first bytes say a larger id is something else
NO_FRAME = Refusal(
    Reason.NO_FRAME,
    "a zero byte, the id of a schema in four bytes, and the payload",
    "it does not begin with a zero byte and the id of its schema",
)
SINGLE_OBJECT, _SINGLE_OBJECT_BYTES = b"\xc3\x01", 10
_GUID_FRAMES = {
    b"\x03\x00": "the frame of AWS Glue",
    b"\x03\x05": "the frame of AWS Glue before a packed payload",
    b"\x01": "the frame of a schema registry by GUID",
}
_MOST_INDEXES, _MOST_BYTES = 100, 5
_SHOWN_BYTES = 64


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


class FramedDecode(Protocol):
    """Framed payloads to typed rows; bad ones are rejected."""

    def __call__(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Good rows in order; ``file`` is topic/partition."""


def schema_id(payload: bytes) -> int | None:
    """The id in the frame of a payload; None if it has no frame."""
    if len(payload) < HEAD.size or payload[0] != 0:
        return None
    return int(HEAD.unpack_from(payload)[1])


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a Protobuf type in a frame, and where the message begins. ValueError for a path that is none."""
    count, offset = _zigzag(payload, HEAD.size)
    if count == 0:
        return (0,), offset
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError(f"its frame has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, offset = _zigzag(payload, offset)
        indexes.append(index)
    return tuple(indexes), offset


@dataclass(frozen=True, slots=True)
class LikelyFrame:
    """What a payload that cannot be read begins with, and what takes it: a setting, or what to send in its place."""

    words: str
    taken_by: str


def likely_frame(payload: bytes, of: str) -> LikelyFrame | None:
    """The frame that a payload seems to have: of a registry by id or by GUID, of AWS Glue, or Avro's own."""
    table, setting = ("[feed]", "feed") if of == "value" else ("key of [feed]", "feed.key")
    number, guid = schema_id(payload), _guid(payload)
    if number is not None and number < LIKELY_IDS and len(payload) > HEAD.size:
        taken_by = f'a payload without a frame, or frame = "confluent" in {table} (Avro: {setting}.avro.registry)'
        return LikelyFrame(f"the frame of a schema registry: a zero byte and schema id {number}", taken_by)
    if payload.startswith(SINGLE_OBJECT) and len(payload) >= _SINGLE_OBJECT_BYTES:
        fingerprint = payload[len(SINGLE_OBJECT) : _SINGLE_OBJECT_BYTES].hex()
        words = f"Avro's single-object encoding of the schema with fingerprint {fingerprint}"
        return LikelyFrame(words, f"the schema with this fingerprint in {setting}.avro.schema, and Avro as the format")
    if guid is not None:
        taken_by = "a payload without it, or with the frame of a registry by id. No setting takes this one"
        return LikelyFrame(f"{guid[0]}, schema {guid[1]}", taken_by)
    return None


def _guid(payload: bytes) -> tuple[str, UUID] | None:
    """Which frame with a GUID a payload begins with: Glue's (3, compression), or that of a registry (1)."""
    for head, words in _GUID_FRAMES.items():
        guid = payload[len(head) : len(head) + 16]
        if payload.startswith(head) and len(guid) == 16 and UUID(bytes=guid).variant == RFC_4122:
            return words, UUID(bytes=guid)
    return None


def without_frames(decode: FramedDecode, text: Callable[[bytes], bytes]) -> FramedDecode:
    """A decoder of what is behind frames, which ``text`` turns into UTF-8. A payload without a frame is a bad row."""

    def unframed(block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        payloads = [block.line(index) for index in range(len(block))]
        good = np.fromiter((schema_id(payload) is not None for payload in payloads), np.bool_, len(payloads))
        rejects.add_all(
            _no_frame(payloads[index], file, int(block.numbers[index])) for index in np.flatnonzero(~good).tolist()
        )
        bodies = [text(payloads[index][HEAD.size :]) for index in np.flatnonzero(good).tolist()]
        return decode(framed_block(bodies, block.numbers[good]), file, rejects)

    return unframed


def _no_frame(payload: bytes, file: str, number: int) -> BadRow:
    return bad_row(file, number, None, NO_FRAME, payload[:_SHOWN_BYTES].hex(" "), payload)


def _zigzag(payload: bytes, offset: int) -> tuple[int, int]:
    """A zigzag number of at most 32 bits, and where it ends."""
    number = 0
    for shift in range(_MOST_BYTES):
        if offset >= len(payload):
            raise ValueError("its frame ends too early")
        byte = payload[offset]
        offset += 1
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), offset
    raise ValueError("its frame has a message index of more than 32 bits")
