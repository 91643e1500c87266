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
    "source_end", "gauge", "Where each partition ended, at most some seconds ago: its next offset.", (*STREAM, "source")
)
TAKEN = Metric(
    "source_records_total",
    "counter",
    "Offsets by which the committed position of each partition has moved since it was first known here.",
    (*STREAM, "source"),
)
LAG = Metric(
    "source_lag_records",
    "gauge",
    "Messages between the committed position and the end of each partition, at most some seconds old.",
    (*STREAM, "source"),
)
LAG_FILES = Metric("source_lag_files", "gauge", "Feed files, or files of a Delta table, that are known to wait.")
COMMIT = Metric("commit_seconds", "histogram", "Seconds to write and sync the record that commits a batch.")
FSYNC = Metric("fsync_seconds", "histogram", "Seconds in which the tasks of a batch waited for the disk, added up.")
RUNNING = Metric("stream_up", "gauge", "1 while the stream runs, 0 once it has ended or failed.")

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
    EPOCH,
    FLOOR,
    AGE,
    POSITION,
    END,
    TAKEN,
    LAG,
    LAG_FILES,
    COMMIT,
    FSYNC,
    RUNNING,
)
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
