"""Kafka topics as a Spark source: rows that *name* ranges of offsets, never messages.

An offset of Spark's is the position of each partition, ``{"topic/partition": 17}``, so a progress report shows where
the stream stands and what waits. Where to begin is asked from the commit log when the reader starts; Spark's checkpoint
proposes, the log decides.

A task decodes one planned range of offsets to blocks of typed rows, in bounded memory. A sample is the newest messages
of the topics, as they stand; nothing is committed at the broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.encodings import to_utf8
from sparkhaven.ingest.feeds.base import LOOK_S, SILENT, SMALL_ROWS, Block, Clock, DecoderCache
from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages, Message
from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT, ReaderPool
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, TopicView, partition_ends
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, completed
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.planner import (
    Position,
    first_offsets,
    lag,
    newcomers,
    next_ranges,
    read_before,
    share_out,
    small_batch,
    verified,
)
from sparkhaven.ingest.feeds.spark_planning import FeedStream, RangeReader, RangeRun, committed_ends, stream_source
from sparkhaven.ingest.formats.binary_records import HEAD, likely_frame, schema_id
from sparkhaven.ingest.formats.csv.csv_rows import CsvRecords
from sparkhaven.ingest.formats.json.json_rows import Record, fields_of, record_of
from sparkhaven.ingest.router import Router, TableChoice, TableRows, counting, lines_of, newest_instant, routing_target
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.spec import Limit, StreamSpec, TableRoutes, Target, header_names
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.readers.spark.source_api import DataSource, InputPartition, ReadLimit
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import FeedError, PositionGapError, SettingsError, carrying
from sparkhaven.store.gc_pause import gc_paused
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import TableSchema

Offset = dict[str, int]
KafkaStream = FeedStream[KafkaOptions]
SAMPLED_MESSAGES = 200  # messages that are looked at
GUESS_LASTS = 100  # batches for which a guess is good
LOOK_SECONDS = 1.0  # after which it is asked which topics there are, and what became of them
TOLD_SECONDS = 0.05  # between two plans: ends that a reader knows of are not older
WAIT_SECONDS = 0.05  # for something new
SAMPLED = ("json", "csv")


def kafka_source(stream: KafkaStream) -> type[DataSource]:
    return stream_source("kafka", stream, open_reader)


def open_reader(stream: KafkaStream) -> TopicReader:
    return TopicReader(stream, KafkaTopics(stream.feed), committed(Fs(), stream))


def committed(fs: Fs, stream: KafkaStream) -> dict[TopicPartition, Position]:
    return {partition: Position.of(end) for partition, end in committed_ends(fs, stream).items()}


class TopicReader(RangeReader):
    """``positions`` are those of the commit log, ``kept`` the readers of this process."""

    def __init__(
        self,
        stream: KafkaStream,
        topics: KafkaTopics,
        positions: Mapping[TopicPartition, Position],
        clock: Callable[[], float] = time.monotonic,
        kept: ReaderPool = KEPT,
    ) -> None:
        self._feed, self.given_tasks = stream.feed, stream.tasks
        self.own, self.scratch = stream.feed.max_per_trigger, stream.scratch
        self._topics, self._kept = topics, kept
        self._committed = dict(positions)
        self._positions = dict(positions)  # of what is planned so far
        self._view: dict[str, TopicView] = {}
        self._clock, self._asked, self._looked = clock, float("-inf"), float("-inf")
        self._frozen = self._begun = False
        self._planned: dict[str, list[OffsetRange]] = {}
        self._sizes = MessageSizes(stream.feed)
        self._small = small_batch(None)

    def initialOffset(self) -> Offset:
        return _offset(self._committed)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        with carrying():
            if not self._frozen:
                self._look()
            self._follow(start)
            before = self._positions
            allow_gap = self._feed.allow_gap
            moved = verified(before, self._view, allow_gap=allow_gap)
            if not self._begun:
                self._kept.compare(self._feed, read_before(moved, self._view))
            fresh = newcomers(before, self._view)
            begun = self._begun or bool(before)
            start_rule, view, topics = self._feed.start, self._view, self._topics
            moved |= first_offsets(start_rule, fresh, view, topics, begun=begun, allow_gap=allow_gap)
            self._begun = True
            waiting = lag(moved, self._view)
            rows = self._rows(self.limited(limit), moved, waiting)
            unwritten = [partition for partition in moved if moved[partition] != before.get(partition)]
            ranges = next_ranges(moved, waiting, rows, unwritten)
            if not ranges:
                return start
            self._positions = {**before, **moved}
            for planned in ranges:
                self._positions[planned.topic, planned.partition] = Position(planned.stop, planned.topic_id)
            end = _offset(self._positions)
            self._planned = {_key(end): ranges}
            return self.planned(start, end)

    def prepareForTriggerAvailableNow(self) -> None:
        """Only up to the ends as they are now."""
        with carrying():
            self._look()
        self._frozen = True

    def stop(self) -> None:
        """A broker that does not answer is no longer waited for."""
        self._topics.stop()

    def reportLatestOffset(self) -> Offset:
        return _offset({partition: Position(end) for partition, end in partition_ends(self._view).items()})

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        ranges = self._planned.get(_key(end))
        if ranges is None:
            with carrying():
                ranges = self._between(start, end)
        runs = share_out(ranges, self.tasks_now(), self._small)
        left = sum(lag(self._positions, self._view).values())
        large = sum(item.stop - item.start for item in ranges) > self._small
        return [RangeRun(run, task, left, large) for task, run in enumerate(runs)]

    def _look(self) -> None:
        now = self._clock()
        is_told = now - self._looked < TOLD_SECONDS and now - self._asked < LOOK_SECONDS and self._told()
        if not is_told:
            self._asked = self._clock()
            self._view = self._topics.look()
        self._looked = self._clock()

    def _told(self) -> bool:
        """Takes over where partitions end, if this process reads them all, and so is told by each answer."""
        known = {(topic, number) for topic, state in self._view.items() for number in state.partitions}
        if not known <= self._positions.keys():
            return False
        positions = [(partition, self._positions[partition]) for partition in sorted(known)]
        ranges = {p: OffsetRange(*p, position.offset, position.offset, position.topic_id) for p, position in positions}
        with self._kept.lease_of(self._feed, list(ranges.values())) as reader:
            ends = None if reader is None else reader.ends(ranges, WAIT_SECONDS)
        if ends is None:
            return False
        self._view = {
            topic: TopicView(state.topic_id, {number: ends[topic, number] for number in state.partitions})
            for topic, state in self._view.items()
        }
        return True

    def _follow(self, start: Offset) -> None:
        """Takes over positions that Spark remembers and this reader has not planned: those of its checkpoint."""
        for partition, offset in _partitions(start).items():
            position = self._positions.get(partition)
            if position is None or position.offset < offset:
                self._positions[partition] = Position(offset, position.topic_id if position else "")

    def _between(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """A batch that Spark repeats from its checkpoint; the commit log decides about it."""
        first = _partitions(start)
        ranges = []
        for partition, stop in _partitions(end).items():
            begin = first.get(partition, self._committed[partition].offset if partition in self._committed else stop)
            topic_id = self._committed[partition].topic_id if partition in self._committed else ""
            if begin > stop:
                raise PositionGapError(
                    "Spark's checkpoint goes back", where=partition, expected=f"offset {begin} or later", found=stop
                )
            if begin < stop:
                ranges.append(OffsetRange(*partition, begin, stop, topic_id))
        return ranges

    def _rows(
        self, own: Limit, positions: Mapping[TopicPartition, Position], waiting: Mapping[TopicPartition, int]
    ) -> int | None:
        if own.bytes is None or not any(waiting.values()):
            return own.rows
        message_bytes = self._sizes.bytes_per_message(positions, waiting)
        self._small = small_batch(message_bytes)
        by_bytes = max(1, int(own.bytes / message_bytes))
        return by_bytes if own.rows is None else min(own.rows, by_bytes)


def _offset(positions: Mapping[TopicPartition, Position]) -> Offset:
    return {f"{topic}/{partition}": positions[topic, partition].offset for topic, partition in sorted(positions)}


def _partitions(offset: Offset) -> dict[TopicPartition, int]:
    split = ((*name.rpartition("/"), stop) for name, stop in offset.items())
    return {(topic, int(partition)): stop for topic, _, partition, stop in split}


def _key(offset: Offset) -> str:
    return json.dumps(offset, sort_keys=True)


class MessageSizes:
    """Looks at messages that wait, where most of them do, and again from time to time."""

    def __init__(self, feed: KafkaOptions) -> None:
        self._feed = feed
        self._guess = 0.0
        self._left = 0

    def bytes_per_message(
        self, positions: Mapping[TopicPartition, Position], waiting: Mapping[TopicPartition, int]
    ) -> float:
        """Bytes of key and value; at least 1."""
        if self._left <= 0:
            self._guess, self._left = self._look(positions, waiting), GUESS_LASTS
        self._left -= 1
        return max(self._guess, 1.0)

    def _look(self, positions: Mapping[TopicPartition, Position], waiting: Mapping[TopicPartition, int]) -> float:
        partition = max(waiting, key=lambda partition: waiting[partition])
        start, topic_id = positions[partition].offset, positions[partition].topic_id
        sample = OffsetRange(*partition, start, start + min(SAMPLED_MESSAGES, waiting[partition]), topic_id)
        reader = KafkaReader(self._feed)
        try:
            sizes = [(len(block), block.size) for block in reader.read(sample)]
        finally:
            reader.close()
        messages = sum(count for count, _ in sizes)
        return sum(size for _, size in sizes) / messages if messages else self._guess


def _decoder(
    spec: StreamSpec, schema: TableSchema, routes: TableRoutes | None
) -> tuple[tuple[Target, ...], MessageDecoder]:
    targets = resolve_targets(spec, schema)
    return targets, MessageDecoder(targets, spec if routes is None else counting(spec, routes))


_DECODERS = DecoderCache(_decoder)


def message_blocks(
    reader: KafkaReader, split: OffsetRange, tables: Mapping[int, TableRows], routes: TableRoutes | None, clock: Clock
) -> Iterator[tuple[int, Block]]:
    """Typed rows of one range block by block, each with the number of its table; bad rows go to its rejects.

    ``routes`` None: one table has all rows. Nothing of a range may be committed before the iterator has ended, since it
    proves last that the topic is still the one that was planned. Raises what ``KafkaReader.read`` raises, and
    ErrorBudgetExceeded when the range has more bad rows than a batch may have.
    """
    source, small = partition_name(split.topic, split.partition), split.stop - split.start <= SMALL_ROWS
    blocks: Iterable[FramedMessages] = reader.read(split)
    decoders: dict[int, MessageDecoder] = {}
    routers: dict[int, Router] = {}
    for number, table in tables.items():
        spec = table.spec
        targets, decoders[number] = _DECODERS.of(spec, table.schema, routes, small=small)
        clock_ns = spec.partition.clock.now_ns(clock)
        if routes is None and spec.partition.clock.kind == "batch" and spec.partition.value.column is not None:
            clock_ns, held = _newest(decoders[number], blocks, source, targets, spec)
            blocks = reader.read(split) if held is None else held
        routers[number] = Router(targets, spec.partition, source, clock_ns, "offset")
        table.rejects.source.count(0)
    parts_of = _parts_of(tables, routes, source)
    for block in blocks:
        for table in tables.values():
            table.rejects.source.count(len(block.offsets))
        received_ns = round(clock() * NS_PER_SECOND)
        for number, part in parts_of(block, received_ns).items():
            decoder, rejects = decoders[number], tables[number].rejects
            with gc_paused():  # ended before the yield: what the caller does with the rows is not part of the pause
                rows = decoder.decode(part, source, received_ns, rejects)
            with rejects.completing(partial(completed, part, decoder.headers)):
                yield number, (routers[number], rows, part.value_at)


def _parts_of(
    tables: Mapping[int, TableRows], routes: TableRoutes | None, source: str
) -> Callable[[FramedMessages, int], Mapping[int, FramedMessages]]:
    """What tells the messages of each table of a block, by a field of their values, or by their topic."""
    if routes is None:
        return lambda block, received_ns: dict.fromkeys(tables, block)
    choice, refusing = TableChoice(routes, tables, source, "offset"), tables.get(routes.refusing)
    headers = () if refusing is None else header_names(item.meta for item in refusing.spec.columns)
    spec, topic = next(iter(tables.values())).spec, pa.array([source.rpartition("/")[0]], pa.string())
    by_topic = routes.kind == "topic"  # then nothing is decoded
    decoder = None if by_topic else MessageDecoder((routing_target(routes),), spec, headers, strict=False)

    def texts_of(block: FramedMessages, received_ns: int) -> TypedRows:
        if decoder is not None:
            return decoder.decode(block, source, received_ns, choice.probe)
        codes = pa.array(np.zeros(len(block.offsets), np.int32))
        return TypedRows((pa.DictionaryArray.from_arrays(codes, topic),), block.offsets)

    def parts(block: FramedMessages, received_ns: int) -> Mapping[int, FramedMessages]:
        with gc_paused():
            texts = texts_of(block, received_ns)
            with choice.probe.completing(partial(completed, block, headers)):
                chosen = choice.numbers_of(texts, block.value_at)
            return {
                number: block if len(offsets) == len(block.offsets) else block.where(lines_of(block.offsets, offsets))
                for number, offsets in chosen.items()
                if len(offsets)
            }

    return parts


def _newest(
    decoder: MessageDecoder,
    blocks: Iterable[FramedMessages],
    source: str,
    targets: Sequence[Target],
    spec: StreamSpec,
) -> tuple[int, list[FramedMessages] | None]:
    """The newest instant of a range, and its blocks; None where they are more than is held, and have to be read again.

    It is known when all of the range was seen.
    """
    assert isinstance(spec.feed, KafkaOptions)  # noqa: S101
    silent, rule, limits = Rejects(SILENT, keep=0), spec.partition.value, spec.feed.limits
    instants: list[int] = []
    held: list[FramedMessages] | None = []
    size = messages = 0
    for block in blocks:
        with gc_paused():
            rows = decoder.decode(block, source, 0, silent)
        newest = newest_instant(rows, targets, rule)
        instants += [] if newest is None else [newest]
        size, messages = size + block.size, messages + len(block)
        if size > limits.held_bytes or messages > limits.held_messages:
            held = None
        elif held is not None:
            held.append(block)
    return max(instants, default=0), held


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
