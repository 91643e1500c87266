"""The newest messages of a feed's topics, as they stand; nothing is committed at the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.encodings import to_utf8
from sparkhaven.ingest.feeds.base import LOOK_S, SILENT
from sparkhaven.ingest.feeds.kafka.blocks import Message
from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.formats.confluent import HEAD, likely_frame, schema_id
from sparkhaven.ingest.formats.csv.csv_rows import CsvRecords
from sparkhaven.ingest.formats.json.sample import Record, fields_of, record_of
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import FeedError, SettingsError

SAMPLED = ("json", "csv")


def sample_topics(options: KafkaOptions, rows: int) -> Sample:
    """At most so many of the newest messages, about as many of each partition; FeedError if there are none."""
    require_format(options)
    view = KafkaTopics(options, patience=LOOK_S).look()
    partitions = [(topic, number) for topic in sorted(view) for number in sorted(view[topic].partitions)]
    reader = KafkaReader(options)
    sampled: dict[str, list[Message]] = {}
    whole, left = True, rows
    try:
        for done, (topic, number) in enumerate(partitions):
            bounds = view[topic].partitions[number]
            first = max(bounds.beginning, bounds.end - -(-left // (len(partitions) - done)))
            whole &= first == bounds.beginning
            wanted = OffsetRange(topic, number, first, bounds.end, view[topic].topic_id)
            messages = [block.at(offset) for block in reader.read(wanted) for offset in block.offsets.tolist()]
            left -= len(messages)
            if messages:
                sampled[partition_name(topic, number)] = messages
    finally:
        reader.close()
    return sample_of(sampled, options, whole=whole)


def require_format(options: KafkaOptions) -> None:
    """SettingsError for payloads that do not name their fields themselves."""
    if options.format not in SAMPLED:
        raise SettingsError(
            f"a schema cannot be inferred from messages of format {options.format}",
            where="feed.format",
            expected=" or ".join(SAMPLED),
            found=options.format,
            hint="write the schema by the fields that the format's own schema declares",
        )


def sample_of(sampled: Mapping[str, Sequence[Message]], options: KafkaOptions, *, whole: bool) -> Sample:
    """The values of messages by topic/partition; a message without a value is passed over."""
    positions: list[str] = []
    bad: list[Unreadable] = []
    records: list[Record] = []
    for source, messages in sampled.items():
        payloads = {one.offset: _text(one.value, options) for one in messages if one.value is not None}
        if options.format == "csv":
            listed = _csv(source, payloads, options, bad)
        else:
            listed = [(offset, _record(payload)) for offset, payload in payloads.items()]
        for offset, record in listed:
            if isinstance(record, str):
                bad.append(Unreadable(f"{source} offset {offset}", record))
            else:
                records.append(record)
                positions.append(f"{source} offset {offset}")
    if not records:
        raise FeedError(
            "no message of the sample can be read" if bad else "the topics have no messages to infer from",
            where=options.path,
            expected=f"messages in {options.format}",
            found="; ".join(f"{fault.position}: {fault.reason}" for fault in bad[:3]) or "no message with a value",
            hint="correct feed.format" if bad else "wait for messages, or sample another topic",
        )
    if options.format == "json":
        fields, unnamed = fields_of(records)
        return Sample(options.path, "json", fields, positions, whole, tuple(bad), unnamed, messages=True)
    texts = {name: [record[name] for record in records] for name in options.csv.names if name}
    null, quoted = options.csv.null, options.csv.quoted_null
    return Sample(
        options.path, "csv", texts, positions, whole, tuple(bad), null=null, quoted_null=quoted, messages=True
    )


def _record(payload: bytes) -> Record | str:
    record = record_of(payload)
    likely = likely_frame(payload, "value") if isinstance(record, str) else None
    return record if likely is None else f"not JSON (it looks like {likely.words}. Expected: {likely.taken_by})"


def _text(payload: bytes, options: KafkaOptions) -> bytes:
    """A value in UTF-8, without its frame; one that lacks it is no JSON."""
    framed = options.frame is not None and schema_id(payload) is not None
    return to_utf8(payload[HEAD.size :] if framed else payload, options.encoding)


def _csv(
    source: str, payloads: Mapping[int, bytes], options: KafkaOptions, bad: list[Unreadable]
) -> list[tuple[int, Record | str]]:
    taken = CsvRecords(options.csv)
    rejects = Rejects(
        SILENT, sink=lambda rows: bad.extend(Unreadable(f"{b.file} offset {b.line}", b.explanation) for b in rows)
    )
    block = framed_block(list(payloads.values()), np.array(list(payloads), np.int64))
    taken.decode(block, source, rejects)
    rejects.flush()
    return list(taken.records)
