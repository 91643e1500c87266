"""The feed of a stream, from its settings to a Spark source; one row a type of feed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ingest.content.parts import can_be_cut
from ingest.feeds.delta.planner import DeltaPlanner
from ingest.feeds.files.listing import missing_directory, split_pattern
from ingest.feeds.files.planner import FilePlanner
from ingest.feeds.kafka.planner import Position, lag, newcomers, verified
from ingest.feeds.kafka.starts import first_offsets
from ingest.feeds.kafka.topics import PATIENCE_SECONDS, KafkaTopics
from ingest.options.delta import DeltaFeed
from ingest.options.files import DAY_S, FeedSpec
from ingest.options.kafka import KafkaFeed
from jobs.settings.stream_file import StreamSettings
from store.epochs.state.files import FileWindow
from store.epochs.state.offsets import Offsets
from store.epochs.state.replay import StreamState
from store.epochs.state.versions import TABLE
from store.errors import SettingsError
from store.io.fs import Fs
from store.layout import Layout
from writers.spark.splits import SplitOf, file_of, range_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


@dataclass(frozen=True, slots=True)
class OpenedFeed:
    """A source whose rows name splits, how they do it, and whether missing offsets may be passed over."""

    source: DataFrame
    split_of: SplitOf
    allow_gap: bool = False


def open_feed(spark: SparkSession, layout: Layout, settings: StreamSettings) -> OpenedFeed:
    """The source of a stream; it starts from the stream's commit log."""
    spec, tasks = settings.spec, spark.sparkContext.defaultParallelism
    if isinstance(spec.feed, KafkaFeed):
        from ingest.feeds.kafka.source import KafkaStream, kafka_source

        stream = KafkaStream(layout.root, settings.table, spec.stream, spec.feed, tasks)
        return OpenedFeed(_load(spark, kafka_source(stream)), range_of, spec.feed.allow_gap)
    if isinstance(spec.feed, DeltaFeed):
        from ingest.feeds.delta.source import DeltaStream, delta_source

        versions = DeltaStream(layout.root, settings.table, spec.stream, spec.feed, tasks)
        return OpenedFeed(_load(spark, delta_source(versions)), range_of)
    from ingest.feeds.files.source import FilesSource, source_options

    parts = can_be_cut(spec)
    options = source_options(layout.root, settings.table, spec.stream, spec.feed, tasks=tasks, parts=parts)
    return OpenedFeed(_load(spark, FilesSource, options), file_of)


def _load(
    spark: SparkSession, source: type[DataSource], options: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).options(**options).load()


def max_file_age_s(feed: FeedSpec | KafkaFeed | DeltaFeed) -> float:
    """How long a taken file is remembered; of no meaning where there are no files."""
    return feed.max_file_age_s if isinstance(feed, FeedSpec) else 7 * DAY_S


def require_there(fs: Fs, settings: StreamSettings) -> None:
    """SettingsError for a directory of a files feed that does not exist, unless the feed waits for it."""
    feed = settings.spec.feed
    if not isinstance(feed, FeedSpec) or feed.missing_directory == "wait":
        return
    root, _ = split_pattern(feed.path)
    if fs.stat(root) is None:
        raise missing_directory(root, SettingsError)


def waiting(
    fs: Fs, settings: StreamSettings, state: StreamState | None, *, patience: float = PATIENCE_SECONDS
) -> tuple[dict[str, Any], str]:
    """What a run would take, as values and in words; nothing is opened for writing.

    A broker is waited for ``patience`` seconds.
    """
    feed = settings.spec.feed
    if isinstance(feed, FeedSpec):
        require_there(fs, settings)
        planner = FilePlanner(fs, feed, state.files if state else FileWindow(), time.time)
        planner.look()
        files, size = planner.waiting()
        counts = {"waiting_files": files, "waiting_bytes": size, "passed": planner.passed().to_json()}
        return counts, f"{files:,} files, {size:,} bytes,"
    if isinstance(feed, DeltaFeed):
        end = state.offsets.get((TABLE, 0)) if state else None
        versions = DeltaPlanner(fs, feed, end.stop if end else None, end.topic_id if end else "")
        versions.look()
        files, size = versions.waiting()
        return {"waiting_files": files, "waiting_bytes": size}, f"{files:,} data files, {size:,} bytes,"
    topics = KafkaTopics(feed, patience=patience)
    view = topics.look()
    known = {place: Position(end.stop, end.topic_id) for place, end in (state.offsets if state else Offsets()).items()}
    fresh = newcomers(known, view)
    positions = verified(known, view, allow_gap=feed.allow_gap)
    positions |= first_offsets(feed.start, fresh, view, topics, begun=bool(known))
    left = {f"{topic}/{partition}": amount for (topic, partition), amount in sorted(lag(positions, view).items())}
    ends = {f"{topic}/{n}": b.end for topic, now in sorted(view.items()) for n, b in sorted(now.partitions.items())}
    return {"waiting_messages": sum(left.values()), "lag": left, "ends": ends}, f"{sum(left.values()):,} messages"


def passed_lines(passed: Mapping[str, Any]) -> list[str]:
    """What a files feed does not take, a line for each reason, with the first names."""
    lines = []
    for reason, found in passed.items():
        more = found["count"] - len(found["first"])
        named = ", ".join(found["first"]) + (f" and {more:,} more" if more else "")
        lines.append(f"{found['count']:,} files, {reason}: {named}")
    return lines
