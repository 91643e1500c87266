"""The feed of a stream as a Spark source, and the watch over the server that it reads from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sparkhaven.ingest.feeds.base import PassedFiles, Remote, Waiting, WaitingCounts
from sparkhaven.ingest.spec.stream_spec import DAY_S
from sparkhaven.jobs.session.interpreter import require_program
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.reports.source_watch import SourceState, SourceWatch
from sparkhaven.store.epochs.state.log_values import FileId, OffsetRange
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.resume_rules import STREAM, TABLE
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.batch.stream_batches import SplitOf, file_of, range_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_OF: Mapping[type, SplitOf] = {FileId: file_of, OffsetRange: range_of}


@frozen
class OpenedFeed:
    """A source whose rows are splits, how to parse them, and whether missing offsets are allowed."""

    source: DataFrame
    split_of: SplitOf
    allow_gap: bool = False


def open_feed(spark: SparkSession, layout: Layout, settings: StreamSettings, *, once: bool) -> OpenedFeed:
    """The Spark source of a stream, which starts from the stream's commit log; ``once``: up to what is there now.

    SettingsError: the driver cannot start its planner.
    """
    from sparkhaven.readers.spark.source_api import HAS_LIMITS  # imports PySpark
    from sparkhaven.readers.spark.without_limits import planned_source

    require_program(spark.sparkContext)
    feed = settings.feed
    source = feed.source(layout.root, spark.sparkContext.defaultParallelism)
    kind = source.kind if HAS_LIMITS else planned_source(source.kind, once=once)
    spark.dataSource.register(kind)
    frame = spark.readStream.format(kind.name()).options(**source.options).load()
    return OpenedFeed(frame, SPLIT_OF[feed.options.traits.split], feed.resume.allow_gap)


def name_stream(error: Exception, settings: StreamSettings) -> None:
    """Puts table and stream into the commands that an error of its feed tells to run; a feed knows neither."""
    if isinstance(error, SparkhavenError) and error.hint is not None:
        error.hint = error.hint.replace(f"{TABLE} {STREAM}", f"{settings.spec.table} {settings.spec.stream}")


def ask_source(fs: Fs, settings: StreamSettings, state: StreamState | None, patience: float) -> Waiting:
    """What waits for a stream. The RetryableFeedError of a server that does not answer says how long it was asked."""
    try:
        return settings.feed.waiting(fs, state, patience)
    except SparkhavenError as error:
        name_stream(error, settings)
        if isinstance(error, RetryableFeedError) and settings.feed.remote() is not None:
            error.hint = f"{error.hint}. It had {patience:g} s to answer: `--wait` gives it more"
        raise


def watch_ends(
    remote: Remote,
    positions: Callable[[], Mapping[str, int]],
    on_change: Callable[[SourceState], None],
    clock: Callable[[], float] = time.monotonic,
) -> SourceWatch:
    """A watch over the topic partitions that have a position."""
    return SourceWatch(lambda: remote.ends(tuple(positions())), clock, on_change)


def older_line(count: int, paths: Sequence[str], max_file_age_s: float) -> str:
    """New files that are too old to be ingested, the newest of them by name, and what to do."""
    names = ", ".join(paths[-count:]) + (f" and {count - len(paths)} more" if count > len(paths) else "")
    days = max_file_age_s / DAY_S
    return (
        f"{count:,} new files are older than max_file_age ({days:g} d) and are not ingested: {names}."
        " Touch a file to have it ingested"
    )


def remarks_of(waiting: WaitingCounts, max_file_age_s: float) -> list[str]:
    """What of the waiting input a person should look at: files too old to be taken, and remarks of the feed."""
    count = waiting.get("older_files", 0)
    older = [older_line(count, waiting["older"], max_file_age_s)] if count else []
    return [*older, *waiting.get("remarks", ())]


def passed_lines(passed: Mapping[str, PassedFiles]) -> list[str]:
    """The files that a feed does not ingest, a line for each reason, with the first names."""
    lines = []
    for reason, files in passed.items():
        more = files["count"] - len(files["first"])
        names = ", ".join(files["first"]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"{files['count']:,} files, {reason}: {names}" if files["count"] else f"{reason}: {names}")
    return lines
