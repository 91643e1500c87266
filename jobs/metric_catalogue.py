"""What ``ingest --metrics-port`` tells: every metric by name, kind, labels, and a sentence. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
PREFIX = "sparkhaven_"
STREAM = ("table", "stream")  # labels of all


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
