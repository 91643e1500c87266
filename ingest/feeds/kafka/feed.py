"""Topics of a Kafka broker, as a feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import (
    PATIENCE_S,
    Block,
    Clock,
    Remote,
    RequeuedRows,
    ResumeRules,
    Source,
    TablesFeed,
    Waiting,
    WaitingCounts,
)
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.settings import KafkaFeedModel, kafka_options
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec import TableRoutes, Target, header_names
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


class KafkaFeed(TablesFeed[KafkaOptions, OffsetRange]):
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

        MessageDecoder(targets, self.spec)

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
        begun, allow_gap = bool(committed), feed.allow_gap
        positions |= first_offsets(feed.start, fresh, view, topics, begun=begun, allow_gap=allow_gap)
        left = {partition_name(*partition): amount for partition, amount in sorted(lag(positions, view).items())}
        ends_by_name = {partition_name(*partition): end for partition, end in sorted(partition_ends(view).items())}
        waiting = sum(left.values())
        counts = WaitingCounts(waiting_messages=waiting, lag=left, ends=ends_by_name)
        return Waiting(counts, counted(waiting, "message"), rows=waiting, nothing=not ends_by_name)

    def blocks(
        self, fs: Fs, split: OffsetRange, tables: Mapping[int, TableRows], routes: TableRoutes | None, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        from sparkhaven.ingest.feeds.kafka.broker.reader_pool import KEPT
        from sparkhaven.ingest.feeds.kafka.source import message_blocks

        headers = header_names(item.meta for table in tables.values() for item in table.spec.columns)
        with KEPT.lease(self.options, [split], headers=headers) as reader:
            yield from message_blocks(reader, split, tables, routes, clock)
            for table in tables.values():
                table.rejects.last = reader.last_of(split)

    @classmethod
    def sample(cls, fs: Fs, options: KafkaOptions, rows: int) -> Sample:
        from sparkhaven.ingest.feeds.kafka.source import sample_topics

        return sample_topics(options, rows)

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, requeue_messages

        return requeue_messages(source, rows, MessageDecoder(targets, self.spec), now_ns, rejects)

    def remote(self) -> Remote:
        """The broker; SettingsError for a setting that its client refuses."""
        from sparkhaven.ingest.feeds.kafka.broker.topics import Broker

        return Broker(self.options)
