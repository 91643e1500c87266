"""The metrics of ``ingest --metrics-port``: name, kind, labels and help. Data only.

What streams report to their metrics. These classes keep nothing: they stand for metrics that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkhaven.jobs.monitor.waiting import SourceWatch
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import BatchProgress

Kind = Literal["counter", "gauge", "histogram"]
PREFIX = "sparkhaven_"
STREAM = ("table", "stream")  # labels of all metrics of streams
TABLE = ("table",)
MODE = (*STREAM, "mode")  # the durability of the stream
DATED = ("table", "date")
REASONED = (*STREAM, "reason")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; counters start at 0 with the process, gauges are current values."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = STREAM
    buckets: tuple[float, ...] = ()


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
SIZES = tuple(float(1 << power) for power in range(10, 31, 2))

ROWS = Metric("rows_total", "counter", "Rows committed by this process.")
BYTES = Metric("bytes_total", "counter", "Bytes of the feed files whose rows are committed. Topics are not counted.")
BATCHES = Metric("batches_total", "counter", "Batches that became an epoch.")
REPLAYS = Metric("replay_noop_total", "counter", "Splits that were planned again after their commit, and skipped.")
GAPS = Metric("offset_gap_total", "counter", "Missing offsets that were skipped, as allow_gap permits.")
REJECTED = Metric("quarantine_total", "counter", "Rows written to quarantine, by reason.", REASONED)
UNKNOWN = Metric("unknown_fields_total", "counter", "Fields of rows that no column takes, and that are not ignored.")
ABSENT = Metric("absent_fields_total", "counter", "Fields of columns that rows do not have.")
LATE = Metric("late_rows_total", "counter", "Rows rejected because their date was truncated.", REASONED)
OUTSIDE = Metric(
    "out_of_bounds_total", "counter", "Rows rejected because their date is null or too far from the clock.", REASONED
)
DECODERS = Metric(
    "decoder_errors_total",
    "counter",
    "Unexpected exceptions of decoders: rows rejected as decoder-failed, and blocks decoded anew because of one.",
)
CUT = Metric("recovery_bytes_cut", "gauge", "Bytes of an uncommitted batch that recovery truncated at the start.")
EPOCH = Metric("epoch_current", "gauge", "Newest epoch of the stream.")
FLOOR = Metric("epoch_floor", "gauge", "Oldest epoch that can be rolled back to.")
AGE = Metric("epoch_age_seconds", "gauge", "Seconds since this process committed an epoch, or since its start.")
POSITION = Metric(
    "source_position",
    "gauge",
    "Committed position of the source: the next offset, version or file.",
    (*STREAM, "source"),
)
END = Metric(
    "source_end", "gauge", "End of each topic partition: its next offset, asked at the scrape.", (*STREAM, "source")
)
END_AGE = Metric(
    "source_end_age_seconds", "gauge", "Age of the ends of topic partitions. It grows while the broker does not answer."
)
REACHABLE = Metric("source_reachable", "gauge", "1 if the broker of a topic answers, 0 if it does not.")
TAKEN = Metric(
    "source_records_total",
    "counter",
    "Offsets by which the committed position of each topic partition has moved since the start.",
    (*STREAM, "source"),
)
LAG = Metric(
    "source_lag_records",
    "gauge",
    "Messages between the committed position and the end of each topic partition.",
    (*STREAM, "source"),
)
LAG_SECONDS = Metric(
    "source_lag_seconds",
    "gauge",
    "Seconds for which the oldest message, or any file, is known to wait, since the start of the process.",
    (*STREAM, "source"),
)
LAG_FILES = Metric("source_lag_files", "gauge", "Feed files, or files of a Delta table, that wait.")
COMMIT = Metric(
    "commit_seconds", "histogram", "Seconds to write and sync the record that commits a batch.", MODE, SECONDS
)
FSYNC = Metric(
    "fsync_seconds", "histogram", "Seconds that the tasks of a batch waited for syncs, summed.", MODE, SECONDS
)
SYNC_BYTES = Metric(
    "sync_batch_bytes",
    "histogram",
    "Bytes that a batch has appended to column files. With durability fsync, a batch waits until they are synced.",
    MODE,
    SIZES,
)
BATCH = Metric("batch_seconds", "histogram", "Seconds that a batch took, from plan to commit.", buckets=LONG_SECONDS)
RUNNING = Metric("stream_up", "gauge", "1 while the stream runs, 0 once it has ended or failed, and between restarts.")
RESTARTS = Metric("restarts_total", "counter", "Restarts of the stream after a failure.")
FAILURES = Metric("failures_total", "counter", "Failures of the stream, by the class of the error.", (*STREAM, "error"))
MISMATCHES = Metric(
    "replay_mismatch_total", "counter", "Failures because the source does not continue where the commit log ends."
)
LOCKS_LOST = Metric("lease_lost_total", "counter", "Failures because another process has taken over the stream.")
DAMAGES = Metric("checksum_errors_total", "counter", "Failures because of a damaged file.")
LOSS_WINDOW = Metric(
    "loss_window_seconds",
    "gauge",
    "Seconds of commits that a power failure may lose. They are ingested again. +Inf = since the start.",
    MODE,
)
RECOVERY = Metric("recovery_seconds", "gauge", "Seconds that opening the stream took, including recovery.")
DATES = Metric("open_dates", "gauge", "Dates with intraday data of the stream.")

CATALOGUE = (
    ROWS, BYTES, BATCHES, REPLAYS, GAPS, REJECTED, UNKNOWN, ABSENT, LATE, OUTSIDE, DECODERS, CUT, RECOVERY, EPOCH,
    FLOOR, AGE, POSITION, END, END_AGE, REACHABLE, TAKEN, LAG, LAG_SECONDS, LAG_FILES, COMMIT, FSYNC, SYNC_BYTES, BATCH,
    RUNNING, RESTARTS, FAILURES, MISMATCHES, LOCKS_LOST, DAMAGES, LOSS_WINDOW, DATES,
)  # fmt: skip
LOG_FAILURES = Metric(
    "log_failures_total",
    "counter",
    "Failed writes of the log table, which stop no stream and are repeated a minute later.",
    TABLE,
)
LOG_LOST = Metric("log_rows_lost_total", "counter", "Rows of the log table that were given up.", TABLE)
OF_LOGS = (LOG_FAILURES, LOG_LOST)
"""Metrics of log tables: ``table`` is one of ``SparkhavenInternal``."""
OF_TOPICS = (END_AGE, REACHABLE)  # only where there is a broker

MERGE_SECONDS = Metric("merge_seconds", "gauge", "Seconds that the newest finished merge of a date took.", DATED)
MERGE_AT = Metric("merge_end_seconds", "gauge", "When the newest finished merge was published, as Unix time.", TABLE)
MERGE_ROWS = Metric("merge_rows", "gauge", "Rows that the newest finished merge of a date has written.", DATED)
MERGE_BYTES = Metric("merge_bytes", "gauge", "Bytes of columns that the newest finished merge has written.", TABLE)
MERGE_DATES = Metric(
    "merge_dates",
    "gauge",
    "Dates by the result of their last merge: merged, or unfinished (it runs, was interrupted or failed).",
    (*TABLE, "result"),
)
MERGE_PHASE = Metric(
    "merge_phase",
    "gauge",
    "1 for the last finished phase of each date whose merge runs, was interrupted or failed.",
    (*DATED, "phase"),
)
AMPLIFICATION = Metric(
    "write_amplification",
    "gauge",
    "Bytes that all merges of the date that was merged last have written, over its bytes in use.",
    DATED,
)
SYMBOLS = Metric(
    "symbol_ids",
    "gauge",
    "Entries of the symbol tables in use, summed over locations. A location has no text twice.",
    (*TABLE, "column"),
)
DUPLICATES = Metric(
    "symbol_duplicates",
    "gauge",
    "Entries that repeat a text of the same symbol table, summed over locations. A merge removes them.",
    (*TABLE, "column"),
)
SYMBOL_HITS = Metric(
    "symbol_hit_ratio",
    "gauge",
    "Fraction of rows whose text was already in the symbol table of their location.",
    (*TABLE, "column"),
)
DISK = Metric(
    "disk_bytes",
    "gauge",
    "Bytes of the files of the table, by volume: intraday, a storage partition, or extended, the tree beside history.",
    (*TABLE, "volume"),
)
WASTE = Metric(
    "waste_bytes", "gauge", "Bytes of disk_bytes that no read of the newest snapshot needs.", (*TABLE, "volume")
)
FREE = Metric(
    "disk_free_bytes",
    "gauge",
    "Free bytes where the files of the table are, by volume: intraday, which has the root, or a storage partition.",
    (*TABLE, "volume"),
)
FAILED = Metric(
    "stream_failed_seconds",
    "gauge",
    "When a stream of the table failed last, in whatever process, as Unix time. Gone with its next success.",
    (*STREAM, "error"),
)
OPEN_FILES = Metric("open_files", "gauge", "Files of the table that this process has open.", TABLE)
PINS = Metric("pins", "gauge", "Streams of the table whose snapshot this process has pinned, once a reader.", TABLE)
OLDEST_PIN = Metric(
    "oldest_pin_seconds", "gauge", "Seconds since the oldest of these pins was first seen by a scrape. 0 = none.", TABLE
)
FIGURES_AGE = Metric(
    "table_figures_age_seconds",
    "gauge",
    "Age of the metrics of merges, symbols and disk, which are refreshed during a scrape.",
    TABLE,
)

OF_TABLES = (
    MERGE_SECONDS, MERGE_AT, MERGE_ROWS, MERGE_BYTES, MERGE_DATES, MERGE_PHASE, AMPLIFICATION, SYMBOLS, DUPLICATES,
    SYMBOL_HITS, DISK, WASTE, FREE, FAILED, OPEN_FILES, PINS, OLDEST_PIN, FIGURES_AGE,
)  # fmt: skip
"""Metrics of a table over all of its streams."""


class StreamSink:
    """Receives the reports of one stream."""

    def on_disk(self, fs: Fs, layout: Layout, policy: CommitPolicy, recovery_s: float) -> None:
        """Where the stream writes, what a power failure may lose, and how long the opening took."""

    def batch(self, done: BatchProgress) -> None:
        """A batch has ended."""

    def reported(self, said: Mapping[str, Any]) -> None:
        """The source has reported."""

    def ended(self) -> None:
        """The query has ended, or failed."""


class MetricsSink:
    """Receives the reports of all streams of a process."""

    def stream(self, table: str, log: StreamLog, watch: SourceWatch | None = None) -> StreamSink:
        """What receives the reports of a stream that was just opened. ``watch`` asks its broker, if it has one."""
        return StreamSink()

    def failed(self, table: str, stream: str, error: BaseException) -> None:
        """A stream has failed, or cannot be opened."""

    def restarted(self, table: str, stream: str) -> None:
        """A stream that had failed is started again."""


NO_METRICS = MetricsSink()
