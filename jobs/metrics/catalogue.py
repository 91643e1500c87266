"""What ``ingest --metrics-port`` tells: every metric by name, kind, labels, and a sentence. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
PREFIX = "sparkhaven_"
STREAM = ("table", "stream")  # labels of all metrics of streams
TABLE = ("table",)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; counters begin at 0 with the process, gauges say what is so now."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = STREAM
    buckets: tuple[float, ...] = ()


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
SIZES = tuple(float(1 << power) for power in range(10, 31, 2))

ROWS = Metric("rows_total", "counter", "Rows committed by this process.")
BYTES = Metric("bytes_total", "counter", "Bytes of the feed files whose rows are committed; topics are not counted.")
BATCHES = Metric("batches_total", "counter", "Batches that became an epoch.")
REPLAYS = Metric("replay_noop_total", "counter", "Splits that were offered again and left out, being committed.")
GAPS = Metric("offset_gap_total", "counter", "Offsets that were missing and passed over, by permission.")
REJECTED = Metric(
    "quarantine_total", "counter", "Rows set aside, by reason; see `sparkhaven quarantine list`.", (*STREAM, "reason")
)
LATE = Metric("late_rows_total", "counter", "Rows set aside because their date was truncated or deleted.")
OUTSIDE = Metric(
    "out_of_bounds_total", "counter", "Rows set aside because their date is null or too far from the clock."
)
CUT = Metric("recovery_bytes_cut", "gauge", "Bytes of an uncommitted batch that recovery cut off at the start.")
EPOCH = Metric("epoch_current", "gauge", "Newest epoch of the stream.")
FLOOR = Metric("epoch_floor", "gauge", "Oldest epoch that can be gone back to.")
AGE = Metric("epoch_age_seconds", "gauge", "Seconds since this process committed an epoch, or since it began.")
POSITION = Metric(
    "source_position", "gauge", "Where the source is committed: the next offset, version or file.", (*STREAM, "source")
)
END = Metric(
    "source_end",
    "gauge",
    "Where each partition of a topic ends: its next offset, asked when this is scraped.",
    (*STREAM, "source"),
)
END_AGE = Metric(
    "source_end_age_seconds", "gauge", "Age of the ends of the partitions; it grows while the broker does not answer."
)
REACHABLE = Metric("source_reachable", "gauge", "1 if the broker of a topic answers, 0 if it does not.")
TAKEN = Metric(
    "source_records_total",
    "counter",
    "Offsets by which the committed position of each partition has moved since it was first known here.",
    (*STREAM, "source"),
)
LAG = Metric(
    "source_lag_records",
    "gauge",
    "Messages between the committed position and the end of each partition, at the age of the ends.",
    (*STREAM, "source"),
)
LAG_SECONDS = Metric(
    "source_lag_seconds",
    "gauge",
    "Seconds for which the oldest message, or any file, is known to wait; from the start of the process on.",
    (*STREAM, "source"),
)
LAG_FILES = Metric("source_lag_files", "gauge", "Feed files, or files of a Delta table, that are known to wait.")
COMMIT = Metric(
    "commit_seconds", "histogram", "Seconds to write and sync the record that commits a batch.", buckets=SECONDS
)
FSYNC = Metric(
    "fsync_seconds",
    "histogram",
    "Seconds for which the tasks of a batch waited for the disk, summed.",
    buckets=SECONDS,
)
SYNC_BYTES = Metric(
    "sync_batch_bytes",
    "histogram",
    "Bytes that a batch has appended to column files; with durability fsync it waits for the disk to have them.",
    buckets=SIZES,
)
BATCH = Metric("batch_seconds", "histogram", "Seconds that a batch took, from plan to commit.", buckets=LONG_SECONDS)
RUNNING = Metric("stream_up", "gauge", "1 while the stream runs, 0 once it has ended or failed, and between restarts.")
RESTARTS = Metric("restarts_total", "counter", "Restarts of the stream after a failure.")
FAILURES = Metric("failures_total", "counter", "Failures of the stream, by the class of the error.", (*STREAM, "error"))
MISMATCHES = Metric(
    "replay_mismatch_total", "counter", "Failures because the source does not continue where the commit log ends."
)
LOCKS_LOST = Metric("lease_lost_total", "counter", "Failures because another process has taken the stream over.")
DAMAGES = Metric("checksum_errors_total", "counter", "Failures because of a damaged file.")
LOSS_WINDOW = Metric(
    "loss_window_seconds",
    "gauge",
    "Seconds of committed work that a power failure may take back; the source replays them. +Inf: since the start.",
)
RECOVERY = Metric("recovery_seconds", "gauge", "Seconds that opening the stream took, with recovery.")
DATES = Metric("open_dates", "gauge", "Dates with intraday data of the stream.")
FREE = Metric("disk_free_bytes", "gauge", "Free bytes of the volume of the database root.")

CATALOGUE = (
    ROWS,
    BYTES,
    BATCHES,
    REPLAYS,
    GAPS,
    REJECTED,
    LATE,
    OUTSIDE,
    CUT,
    RECOVERY,
    EPOCH,
    FLOOR,
    AGE,
    POSITION,
    END,
    END_AGE,
    REACHABLE,
    TAKEN,
    LAG,
    LAG_SECONDS,
    LAG_FILES,
    COMMIT,
    FSYNC,
    SYNC_BYTES,
    BATCH,
    RUNNING,
    RESTARTS,
    FAILURES,
    MISMATCHES,
    LOCKS_LOST,
    DAMAGES,
    LOSS_WINDOW,
    DATES,
    FREE,
)
OF_TOPICS = (END_AGE, REACHABLE)  # only where there is a broker

MERGE_SECONDS = Metric("merge_seconds", "gauge", "Seconds that the newest finished merge of a date took.", TABLE)
MERGE_AT = Metric("merge_end_seconds", "gauge", "When the newest finished merge was published, as Unix time.", TABLE)
MERGE_ROWS = Metric("merge_rows", "gauge", "Rows that the newest finished merge of a date has written.", TABLE)
MERGE_BYTES = Metric("merge_bytes", "gauge", "Bytes of columns that the newest finished merge has written.", TABLE)
MERGE_DATES = Metric(
    "merge_dates",
    "gauge",
    "Dates by the result of their last merge: merged, or unfinished where it runs, was stopped or has failed.",
    (*TABLE, "result"),
)
AMPLIFICATION = Metric(
    "write_amplification", "gauge", "Bytes that all merges have written, over the bytes of history in use.", TABLE
)
SYMBOLS = Metric(
    "symbol_ids", "gauge", "Entries of the symbol tables in use, summed over locations.", (*TABLE, "column")
)
SYMBOL_HITS = Metric(
    "symbol_hit_ratio",
    "gauge",
    "Share of rows whose text was in the symbol table of their location already.",
    (*TABLE, "column"),
)
DISK = Metric(
    "disk_bytes",
    "gauge",
    "Bytes of the files of the table, by volume: intraday, or a storage partition.",
    (*TABLE, "volume"),
)
WASTE = Metric("waste_bytes", "gauge", "Those of them that no read of the newest snapshot needs.", (*TABLE, "volume"))
PINS = Metric("pins", "gauge", "Snapshots of the streams of the table that readers in this process hold.", TABLE)
OLDEST_PIN = Metric(
    "oldest_pin_seconds",
    "gauge",
    "Seconds since a scrape first saw the oldest of these snapshots; 0 without any.",
    TABLE,
)
OPEN_FILES = Metric("open_files", "gauge", "Files of the table that this process has open.", TABLE)
FIGURES_AGE = Metric(
    "table_figures_age_seconds",
    "gauge",
    "Age of the metrics of merges, symbols and disk; they are read again while scraped, for a twentieth of the time.",
    TABLE,
)

OF_TABLES = (
    MERGE_SECONDS,
    MERGE_AT,
    MERGE_ROWS,
    MERGE_BYTES,
    MERGE_DATES,
    AMPLIFICATION,
    SYMBOLS,
    SYMBOL_HITS,
    DISK,
    WASTE,
    PINS,
    OLDEST_PIN,
    OPEN_FILES,
    FIGURES_AGE,
)
"""Of a table, whatever streams it has; from files of the database, and of this process."""
