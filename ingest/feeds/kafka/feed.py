"""Topics of a Kafka broker, as a feed.

Rejected messages are decoded once more from what the quarantine keeps: value, key, time and place. A sample has the
newest messages of the topics, as they stand; nothing is committed at the broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.encodings import to_utf8
from sparkhaven.ingest.feeds.base import (
    LOOK_S,
    PATIENCE_S,
    SILENT,
    Block,
    Clock,
    PlannedFeed,
    Remote,
    RequeuedRows,
    ResumeRules,
    Source,
    Waiting,
    WaitingCounts,
)
from sparkhaven.ingest.feeds.kafka.blocks import MS, Headers, MessageBlock
from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, headers_of
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.settings import KafkaFeedModel, kafka_options
from sparkhaven.ingest.formats.confluent import HEAD, likely_frame, schema_id
from sparkhaven.ingest.formats.csv.sample import CsvRecords
from sparkhaven.ingest.formats.json.sample import Record, fields_of, record_of
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.spec.stream_spec import HEADER, StreamSpec, TableRoutes, Target
from sparkhaven.ingest.table_choice import TableRows
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import FeedError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema


class KafkaFeed(PlannedFeed[KafkaOptions, OffsetRange]):
    """Ranges of offsets, each fetched by the task that decodes it. The client is imported where it is used."""

    settings = KafkaFeedModel

    @classmethod
    def read(cls, part: KafkaFeedModel, base: Path, fs: Fs) -> KafkaOptions:
        return kafka_options(part, base, fs)

    @property
    def resume(self) -> ResumeRules:
        return ResumeRules(self.options.allow_gap)

    def check_columns(self, targets: Sequence[Target]) -> None:
        """What a decoder of values or keys refuses, before a task does."""
        from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder

        MessageDecoder(targets, self.options, self.spec)

    def source(self, root: Path, tasks: int) -> Source:
        from sparkhaven.ingest.feeds.kafka.source import KafkaStream, kafka_source

        table, *beside = map(TableName.parse, self.spec.fed_tables)
        stream = KafkaStream(root, table, self.spec.stream, self.options, tasks, tuple(beside))
        return Source(kafka_source(stream), {})

    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
        from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
        from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, partition_ends
        from sparkhaven.ingest.feeds.kafka.planner import Position, first_offsets, lag, newcomers, read_before, verified

        feed = self.options
        topics = KafkaTopics(feed, patience=patience)
        view = topics.look()
        ends = (state.offsets if state else Offsets()).items()
        committed = {partition: Position.of(end) for partition, end in ends}
        fresh = newcomers(committed, view)
        positions = verified(committed, view, allow_gap=feed.allow_gap)
        KEPT.compare(feed, read_before(positions, view))
        positions |= first_offsets(feed.start, fresh, view, topics, begun=bool(committed))
        left = {partition_name(*partition): amount for partition, amount in sorted(lag(positions, view).items())}
        ends_by_name = {partition_name(*partition): end for partition, end in sorted(partition_ends(view).items())}
        waiting = sum(left.values())
        counts = WaitingCounts(waiting_messages=waiting, lag=left, ends=ends_by_name)
        return Waiting(counts, f"{waiting:,} messages", rows=waiting, nothing=not ends_by_name)

    def decode(
        self, fs: Fs, split: OffsetRange, schema: TableSchema, rejects: Rejects, clock: Clock
    ) -> Iterator[Block]:
        from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
        from sparkhaven.ingest.feeds.kafka.source import message_blocks

        if (routes := self.spec.routes) is not None:
            yield from self.own_blocks(fs, split, TableRows(self.spec, schema, rejects), routes, clock)
            return
        with KEPT.lease(self.options, [split], headers=_headers(self.spec)) as reader:
            yield from message_blocks(reader, split, self.spec, self.options, schema, rejects, clock)
            rejects.last = reader.last_of(split)

    def decode_tables(
        self, fs: Fs, split: OffsetRange, tables: Mapping[int, TableRows], routes: TableRoutes, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
        from sparkhaven.ingest.feeds.kafka.source import message_table_blocks

        headers = _headers(*(table.spec for table in tables.values()))
        with KEPT.lease(self.options, [split], headers=headers) as reader:
            yield from message_table_blocks(reader, split, tables, routes, self.options, clock)
            for table in tables.values():
                table.rejects.last = reader.last_of(split)

    @classmethod
    def sample(cls, fs: Fs, options: KafkaOptions, rows: int) -> Sample:
        return sample_topics(options, rows)

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        return requeue_messages(source, rows, self.spec, self.options, targets, now_ns, rejects)

    def remote(self) -> Remote:
        """The broker; SettingsError for a setting that its client refuses."""
        from sparkhaven.ingest.feeds.kafka.broker.topics import Broker

        return Broker(self.options)


def _headers(*specs: StreamSpec) -> tuple[str, ...]:
    """The headers that columns take, each once."""
    metas = [item.meta for spec in specs for item in spec.columns if item.meta is not None]
    return tuple(dict.fromkeys(meta.removeprefix(HEADER) for meta in metas if meta.startswith(HEADER)))


LATEST_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Message:
    """A row as the message that it was."""

    row: RejectedRow

    def offset(self) -> int:
        return self.row["Position"]

    def value(self) -> bytes | None:
        return self.row["Payload"]

    def key(self) -> bytes | None:
        return self.row["Key"]

    def timestamp(self) -> tuple[int, int]:
        at_ns = self.row["SourceTime"]
        if at_ns is None:
            return 0, -1
        return 1, LATEST_MS if at_ns == INSTANT_HIGH else at_ns // MS  # a far one has saturated

    def headers(self) -> Headers | None:
        return None if self.row["Header"] is None else headers_of(tuple(json.loads(self.row["Header"])))


def requeue_messages(
    source: str,
    rows: Sequence[RejectedRow],
    spec: StreamSpec,
    options: KafkaOptions,
    targets: Sequence[Target],
    now_ns: int,
    rejects: Rejects,
) -> RequeuedRows:
    """Rows of one topic and partition, by the decoder of messages."""
    messages = [_Message(row) for row in rows]
    typed = MessageDecoder(targets, options, spec).decode(MessageBlock.of(messages), source, now_ns, rejects)
    payloads = {row["Position"]: row["Payload"] or b"" for row in rows}
    return RequeuedRows(source, typed, payloads, "offset", rejects.complete)


SAMPLED = ("json", "csv")


def sample_topics(options: KafkaOptions, rows: int) -> Sample:
    """At most so many of the newest messages, about as many of each partition; FeedError if there are none."""
    require_format(options)
    view = KafkaTopics(options, patience=LOOK_S).look()
    partitions = [(topic, number) for topic in sorted(view) for number in sorted(view[topic].partitions)]
    reader = KafkaReader(options)
    blocks: dict[str, MessageBlock] = {}
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
                blocks[partition_name(topic, number)] = MessageBlock.of(messages)
    finally:
        reader.close()
    return sample_of(blocks, options, whole=whole)


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


def sample_of(blocks: dict[str, MessageBlock], options: KafkaOptions, *, whole: bool) -> Sample:
    """The values of messages by topic/partition; a message without a value is passed over."""
    positions: list[str] = []
    bad: list[Unreadable] = []
    records: list[Record] = []
    for source, block in blocks.items():
        valued = [message for message in block.messages if message.value() is not None]
        payloads = [_text(message.value() or b"", options) for message in valued]
        if options.format == "csv":
            listed = _csv(source, MessageBlock.of(valued), payloads, options, bad)
        else:
            listed = [(m.offset(), _record(payload)) for m, payload in zip(valued, payloads, strict=True)]
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
    source: str, block: MessageBlock, payloads: list[bytes], options: KafkaOptions, bad: list[Unreadable]
) -> list[tuple[int, Record | str]]:
    taken = CsvRecords(options.csv)
    rejects = Rejects(
        SILENT, sink=lambda rows: bad.extend(Unreadable(f"{b.file} offset {b.line}", b.explanation) for b in rows)
    )
    taken.decode(framed_block(payloads, block.offsets), source, rejects)
    rejects.flush()
    return list(taken.records)
