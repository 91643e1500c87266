"""Messages to typed rows: value and key each by a decoder of its own, and columns from where a message stands.

Every message is one row, whatever its payload holds: the decoders get payloads as framed records, and a message without
a value (a tombstone) has nulls for the fields of the value. A row is good when all its parts are; otherwise the first
part that is bad is reported, with topic, partition and offset, and the value as payload.

A payload that is taken whole is the value of its column. Text is UTF-8, bytes are as they come. A number is what
Kafka's own serialisers write, big-endian and of the width of its type; an Instant is a long in the unit of the column.
Any other length is a bad row.

Rejected messages are decoded once more, from what quarantine keeps of them: value, key, time and place.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import (
    MAX_PAYLOAD,
    MAX_VALUE,
    BadRow,
    MessagePart,
    Rejects,
    bad_row,
    exact_rows,
    guarded_rows,
)
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.encodings import reencoded, to_utf8
from sparkhaven.ingest.feeds.base import RequeuedRows
from sparkhaven.ingest.feeds.kafka.blocks import MS, FramedMessages, Message, Part, far_times
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.formats.binary_records import (
    FramedDecode,
    RecordDecoder,
    likely_frame,
    schema_id,
    without_frames,
)
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import (
    HEADER,
    UTF8,
    AvroSource,
    PayloadFormat,
    PayloadSchema,
    ProtobufSource,
    StreamSpec,
    Target,
    header_names,
)
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.coded_values import coded_value
from sparkhaven.ingest.values.exact_values import check_float, check_integer, check_string, declared_value
from sparkhaven.ingest.values.instants import INSTANT_HIGH, check_instant
from sparkhaven.ingest.values.typed_columns import texts_of
from sparkhaven.ingest.values.typed_rows import (
    Refusal,
    TypedRows,
    Value,
    attempted,
    merge_rows,
    no_columns,
    not_utf8,
    out_of_range,
)
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.instants import UNIT_NS
from sparkhaven.store.quarantine.rejected_rows import Reason, RejectedRow

_NUMBERS = {"byte": "b", "short": "h", "int": "i", "long": "q", "float": "f", "double": "d", "Instant": "q"}
_UNREAD = (Reason.NOT_JSON, Reason.NOT_UTF8, Reason.NOT_PROTOBUF, Reason.NOT_AVRO, Reason.NO_FRAME)
LATEST_MS = 2**63 - 1


class RawDecoder:
    """Decoder of whole payloads for one stream."""

    def __init__(self, targets: Sequence[Target], *, alias: bool = False) -> None:
        self._targets, self._alias = tuple(targets), alias
        for target in targets:
            name, coding = target.column.type.name, target.column.type.coding
            if coding is not None and pa.types.is_binary(coding.arrow):
                continue
            if name != "String" and (name not in _NUMBERS or (name == "Instant" and target.unit == "iso")):
                raise SettingsError(
                    f"column {target.column.name} cannot take a whole payload",
                    expected="String, bytes, a number, or an Instant with unit s, ms, us or ns",
                    found=name,
                    hint="choose another format in [feed], or another type in the schema",
                )

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Typed rows of framed payloads; bad rows go to ``rejects``."""
        count = len(block)
        sound = np.zeros(count, np.bool_)
        columns = no_columns(self._targets)
        if all(t.column.type.name == "String" for t in self._targets):
            sound, columns = self._texts(block)
        fast = np.flatnonzero(sound)
        rejects.read += count
        odd = np.flatnonzero(~sound).tolist()
        outcomes = ((index, self._one(block.line(index), file, int(block.numbers[index]))) for index in odd)
        exact, values = exact_rows(outcomes, rejects)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets)

    def _texts(self, block: LineBlock) -> tuple[Mask, list[pa.Array]]:
        utf8 = block.utf8()
        sound = np.ones(len(block), np.bool_) if utf8 is None else utf8
        lines = [block.line(i) for i in np.flatnonzero(sound).tolist()]
        texts = pa.array(lines, pa.binary()).view(pa.string())
        doubt = np.zeros(len(texts), np.bool_)
        for target in self._targets:
            odd = texts_of(texts, target)[1]
            if odd is not None:
                doubt |= odd
        sound[np.flatnonzero(sound)[doubt]] = False
        kept = texts.filter(pa.array(~doubt)) if doubt.any() else texts
        return sound, [kept for _ in self._targets]

    def _one(self, payload: bytes, file: str, number: int) -> list[Value] | BadRow:
        values: list[Value] = []
        for target in self._targets:
            value = attempted(self._value, payload, target)
            if isinstance(value, Refusal):
                shown = payload[:1024].decode("utf-8", "backslashreplace")
                return bad_row(file, number, target.column.name, value, shown, payload)
            values.append(value)
        return values

    def _value(self, payload: bytes, target: Target) -> Value | Refusal:
        name = target.column.type.name
        if (coding := target.column.type.coding) is not None:
            return coded_value(payload, coding, self._alias, declared_value)
        if name == "String":
            try:
                return check_string(payload.decode("utf-8"), target)
            except UnicodeDecodeError as error:
                return not_utf8(error)
        shape = struct.Struct(">" + _NUMBERS[name])
        if len(payload) != shape.size:
            expected = f"a big-endian {name} of {shape.size} bytes"
            return Refusal(Reason.OTHER_LENGTH, expected, f"{len(payload)} bytes")
        (value,) = shape.unpack(payload)
        if name in INTEGER_BITS:
            return check_integer(value, name, self._alias)
        if name == "Instant":
            return check_instant(value * UNIT_NS[target.unit], target, self._alias)
        return check_float(value, target, self._alias)


@dataclass(frozen=True, slots=True)
class _Part:
    """The targets (by place) that come from one payload of a message, and how."""

    places: tuple[int, ...]
    targets: tuple[Target, ...]
    of: Part
    decode: FramedDecode
    encoding: str
    framed: bool  # by the settings


class MessageDecoder:
    """Decoder of the messages of one stream. ``targets`` are all columns, in the order of the rows made.

    Rejected messages keep the headers that columns take, and those of ``headers``. ``strict``: messages with other
    fields are bad. Default: as the stream says.
    """

    def __init__(
        self, targets: Sequence[Target], spec: StreamSpec, headers: Sequence[str] = (), *, strict: bool | None = None
    ) -> None:
        feed = spec.feed
        assert isinstance(feed, KafkaOptions)  # noqa: S101
        self._targets, self._feed, self._spec = tuple(targets), feed, spec
        self._strict = spec.strict if strict is None else strict
        wholes = [n for n, t in enumerate(targets) if t.meta == "key"]
        names = header_names(target.meta for target in targets)
        metas = [f"{HEADER}{name}" for name in names]
        self.headers = tuple(dict.fromkeys((*names, *headers)))
        keys = [n for n, t in enumerate(targets) if t.meta is None and t.of == "key"]
        values = [n for n, t in enumerate(targets) if t.meta is None and t.of == "value"]
        self._parts: list[_Part] = []
        parts: tuple[tuple[list[int], PayloadFormat, PayloadSchema | None, Part], ...] = (
            (wholes, "raw", None, "key"),
            *(([n for n, t in enumerate(targets) if t.meta == meta], "raw", None, meta) for meta in metas),
            (keys, feed.key_format, feed.key_avro or feed.key_protobuf, "key"),
            (values, feed.format, feed.avro or feed.protobuf, "value"),
        )
        for indices, format, schema, of in parts:
            if indices:
                wanted = tuple(targets[n] for n in indices)
                framed = {"value": feed.frame, "key": feed.key_frame}.get(of) is not None
                decoder = self._decoder(format, schema, wanted, framed=framed)
                encoding = feed.encoding if format in ("json", "csv") else UTF8
                framed |= isinstance(schema, AvroSource) and schema.registry is not None
                self._parts.append(_Part(tuple(indices), wanted, of, decoder, encoding, framed))

    def _decoder(
        self, format: PayloadFormat, schema: PayloadSchema | None, targets: tuple[Target, ...], *, framed: bool
    ) -> FramedDecode:
        feed, spec, strict = self._feed, self._spec, self._strict
        ignore, alias, bytes_too = spec.ignore, spec.allow_null_alias, feed.binary_as_text
        if format == "json":
            json_rows = JsonDecoder(targets, ignore, alias=alias, strict=strict)
            return (
                without_frames(json_rows.decode, partial(to_utf8, encoding=feed.encoding))
                if framed
                else json_rows.decode
            )
        if format == "raw":
            return RawDecoder(targets, alias=alias).decode
        if isinstance(schema, AvroSource):
            from sparkhaven.ingest.formats.avro.avro_records import AvroRecords  # fastavro only where it is used

            avro = AvroRecords(targets, schema, alias=alias, missing=feed.missing_columns, bytes_too=bytes_too)
            return RecordDecoder(targets, ignore, avro, strict=strict).decode
        if isinstance(schema, ProtobufSource):
            from sparkhaven.ingest.formats.protobuf.protobuf_records import ProtobufRecords  # and protobuf

            protobuf = ProtobufRecords(targets, schema, alias=alias, bytes_too=bytes_too, framed=framed)
            return RecordDecoder(targets, ignore, protobuf, strict=strict).decode
        csv_rows = CsvDecoder(targets, ignore, feed.csv, alias=alias, missing=feed.missing_columns, strict=strict)
        return lambda block, file, rejects: csv_rows.decode(block, file, rejects)[0]

    def decode(self, block: FramedMessages, source: str, received_ns: int, rejects: Rejects) -> TypedRows:
        """Typed rows of messages in the order of their offsets; ``source`` is topic/partition."""

        def refused(index: int, refusal: Refusal) -> BadRow:
            return _failed(block.at(int(block.offsets[index])), refusal, source, self.headers)

        def decode(start: int, stop: int) -> TypedRows:
            every = np.arange(len(block.offsets))
            part = block if stop - start == len(every) else block.where((every >= start) & (every < stop))
            return self._decode(part, source, received_ns, rejects)

        return guarded_rows(len(block.offsets), decode, refused, rejects)

    def _decode(self, block: FramedMessages, source: str, received_ns: int, rejects: Rejects) -> TypedRows:
        if self._feed.tombstones == "ignore":
            whole = block.where(block.valued())
            rejects.others["tombstones"] += len(block.offsets) - len(whole.offsets)
            rejects.source.leave(len(block.offsets) - len(whole.offsets))
            block = whole
        read = rejects.read + len(block.offsets)
        columns: dict[int, pa.Array] = {}
        for part in self._parts:
            with rejects.completing(partial(_completed, block, part, self.headers)):
                rows = _part_rows(part, block, source, rejects)
            if len(rows) < len(block.offsets):
                good = np.isin(block.offsets, rows.numbers, assume_unique=True)
                columns = {n: column.filter(pa.array(good)) for n, column in columns.items()}
                block = block.where(good)
            columns.update(zip(part.places, rows.columns, strict=True))
        rejects.read = read
        for target in self._targets:
            if target.meta == "timestamp" and target.far is None and len(far := far_times(block.times)):
                with rejects.completing(partial(completed, block, self.headers)):
                    rejects.add_all(_far(target, block, source, index) for index in far.tolist())
                near = np.ones(len(block.offsets), np.bool_)
                near[far] = False
                columns = {n: column.filter(pa.array(near)) for n, column in columns.items()}
                block = block.where(near)
        topic, _, partition = source.rpartition("/")
        for n, target in enumerate(self._targets):
            if n not in columns:
                columns[n] = _meta(target, block, (topic, int(partition)), received_ns)
        return TypedRows(tuple(columns[n] for n in range(len(self._targets))), block.offsets)


def _part_rows(part: _Part, block: FramedMessages, source: str, rejects: Rejects) -> TypedRows:
    """Rows of one part; a message that has no such payload has nulls."""
    payloads = block.payloads(part.of, UTF8 if part.framed else part.encoding)
    rows, valid = part.decode(payloads.block, source, rejects), payloads.there
    if valid is None:
        return rows
    missing = block.offsets[~valid]
    numbers = np.concatenate([rows.numbers, missing])
    order = pa.array(np.argsort(numbers, kind="stable"))
    columns = [pa.concat_arrays([column, pa.nulls(len(missing), column.type)]).take(order) for column in rows.columns]
    return TypedRows(tuple(columns), np.sort(numbers))


def _completed(block: FramedMessages, part: _Part | None, headers: Sequence[str], row: BadRow) -> BadRow:
    """A bad row with what its decoder did not know of the message; ``part`` is what the reason is about."""
    message = block.at(row.line)
    of_key = part is not None and part.of == "key"
    refused = (message.key if of_key else message.value) or b""
    if part is not None and row.column is None and not (part.framed and schema_id(refused) is not None):
        row = _with_frame(row, refused, part.of)
    value = message.value
    payload = None if value is None else value[:MAX_PAYLOAD]
    key, at_ns = message.key, message.time_ns
    if part is not None and part.encoding != UTF8:
        row = reencoded(part.encoding, row)
    completed = replace(row, unit="offset", part="value" if part is None else _part_of(part.of))
    if headers:
        completed = replace(completed, header=header_texts(message, headers))
    return replace(completed, key=key, time_ns=at_ns, payload=payload, size=len(value or b""))


def completed(block: FramedMessages, headers: Sequence[str], row: BadRow) -> BadRow:
    """A bad row of a message as a whole, with those of its headers."""
    return _completed(block, None, headers, row)


def _part_of(name: Part) -> MessagePart:
    return "key" if name == "key" else "header" if name.startswith(HEADER) else "value"


def header_texts(message: Message, names: Sequence[str]) -> tuple[str, ...]:
    """Headers as the quarantine keeps them: ``NAME:BASE64``, those that are there."""
    headers = message.headers
    return tuple(f"{name}:{base64.b64encode(headers[name]).decode()}" for name in names if name in headers)


def headers_of(texts: Sequence[str]) -> dict[str, bytes]:
    """Headers by such texts. Names of CSV fields, which older rows have there, are none."""
    headers: dict[str, bytes] = {}
    for name, colon, value in (text.rpartition(":") for text in texts):
        with suppress(ValueError):
            headers |= {name: base64.b64decode(value, validate=True)} if colon else {}
    return headers


def _failed(message: Message, refusal: Refusal, source: str, headers: Sequence[str]) -> BadRow:
    value = message.value
    shown = (value or b"")[:MAX_VALUE].decode("utf-8", "replace")
    row = bad_row(source, message.offset, None, refusal, shown, value or b"", unit="offset")
    kept = header_texts(message, headers) if headers else None
    payload = None if value is None else row.payload
    return replace(row, payload=payload, key=message.key, time_ns=message.time_ns, header=kept)


def _far(target: Target, block: FramedMessages, source: str, index: int) -> BadRow:
    refusal = out_of_range(True)
    shown = f"{block.times[index]} ms since 1970"
    return bad_row(source, int(block.offsets[index]), target.column.name, refusal, shown)


def _with_frame(row: BadRow, payload: bytes, of: Part) -> BadRow:
    """The row with a reason that names the frame that a payload seems to have which cannot be read."""
    likely = likely_frame(payload, of) if row.refusal.reason in _UNREAD else None
    if likely is None:
        return row
    return replace(row, refusal=Refusal(row.refusal.reason, likely.taken_by, f"it looks like {likely.words}"))


def _meta(target: Target, block: FramedMessages, partition: tuple[str, int], received_ns: int) -> pa.Array:
    arrow, count = target.column.type.arrow, len(block.offsets)
    if target.meta == "topic":
        return pa.repeat(partition[0], count)
    if target.meta == "partition":
        return pa.array(np.full(count, partition[1]), pa.int64()).cast(arrow)
    if target.meta == "offset":
        return pa.array(block.offsets, pa.int64())
    if target.meta == "receive_time":
        return pa.array(np.full(count, received_ns, np.int64)).view(arrow)
    far = far_times(block.times)
    none = block.times < 0
    stamps = np.where(none, 0, block.times)
    stamps[far] = 0
    stamps *= MS
    if target.far == "null":
        none[far] = True
    stamps[far] = INSTANT_HIGH
    return pa.array(stamps, pa.int64(), mask=none).view(arrow)


def _message(row: RejectedRow) -> Message:
    """The message that a row was."""
    at_ns, texts = row["SourceTime"], row["Header"]
    time_ms = -1 if at_ns is None else LATEST_MS if at_ns == INSTANT_HIGH else at_ns // MS  # a far one has saturated
    headers = {} if texts is None else headers_of(json.loads(texts))
    return Message(row["Position"], row["Payload"], row["Key"], time_ms, headers)


def requeue_messages(
    source: str, rows: Sequence[RejectedRow], decoder: MessageDecoder, now_ns: int, rejects: Rejects
) -> RequeuedRows:
    """Rows of one topic and partition, as the messages that they were."""
    block = FramedMessages.made([_message(row) for row in rows], decoder.headers)
    typed = decoder.decode(block, source, now_ns, rejects)
    payloads = {row["Position"]: row["Payload"] or b"" for row in rows}
    return RequeuedRows(source, typed, payloads, "offset", partial(completed, block, decoder.headers))
