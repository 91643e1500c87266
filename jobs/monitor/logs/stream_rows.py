"""Rows of IngestLog and EpochLog: what one stream of a process does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.ingest.feeds.base import DATA_BYTES
from sparkhaven.jobs.monitor.logs.log_tables import ADMIN, EPOCH, INGEST, LogRow, named, user_name
from sparkhaven.store.epochs.state.log_values import ABSENT_FIELDS, UNKNOWN_FIELDS
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName

if TYPE_CHECKING:
    from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
    from sparkhaven.store.epochs.log import StreamLog
    from sparkhaven.store.schema.deployed.deploy import Deployment
    from sparkhaven.writers.batch.stream_batches import BatchProgress


class StreamRecorder:
    """Adds the rows of one run of a stream; ``mode`` is its durability, where it is known.

    ``writer`` None, or a stream of a log table: adds nothing.
    """

    def __init__(self, writer: LogWriter | None, table: TableName, stream: str, mode: str | None) -> None:
        self._writer = None if table.namespace == INTERNAL_NAMESPACE else writer
        self._about = {**named(table), "Stream": stream}
        self._mode = mode

    def batch(self, done: BatchProgress, log: StreamLog, before: Mapping[str, int], query_id: str) -> None:
        """One batch, committed or skipped. ``before``: the positions of the source before it."""
        if self._writer is None:
            return
        outcome, state = done.outcome, log.state
        row = {
            **self._about,
            "BatchId": outcome.batch_id,
            "Epoch": outcome.epoch,
            "Rows": outcome.rows,
            "Rejected": outcome.rejected,
            "UnknownFields": outcome.counts.get(UNKNOWN_FIELDS, 0),
            "AbsentFields": outcome.counts.get(ABSENT_FIELDS, 0),
            "Bytes": outcome.bytes + outcome.counts.get(DATA_BYTES, 0),
            **_offsets(before, state.offsets.positions()),
            "Lag": done.lag,
            "DurationMs": round(done.seconds * 1000),
            "SyncMs": round(outcome.seconds.get("sync", 0.0) * 1000),
            "Mode": self._mode,
            "Outcome": "replayed" if outcome.epoch is None else "committed",
        }
        self._writer.add(INGEST, row)
        if outcome.epoch is not None:
            epoch = {
                **self._about,
                "Epoch": outcome.epoch,
                "Kind": "commit",
                "Locations": outcome.locations,
                "Rows": outcome.rows,
                "Digest": log.last_digest(),
                "SchemaId": state.schema_version,
                "Generation": state.generation,
                "QueryId": query_id,
            }
            self._writer.add(EPOCH, epoch)

    def deployed(self, done: Deployment, file: Path) -> None:
        """A start has deployed a schema, from this file."""
        changed = (done.change.added, done.change.dropped, done.change.restored, done.change.changed)
        message = f"version {done.schema.version}: {done.change.words()}"
        self._accepted(f"schema {file}", sum(map(len, changed)), message)

    def rule_accepted(self, words: str) -> None:
        """A start has taken another partition rule."""
        self._accepted("--accept-rule", None, f"partition rule: {words}")

    def _accepted(self, what: str, affected: int | None, message: str) -> None:
        if self._writer is None:
            return
        about = {name: value for name, value in self._about.items() if name != "Stream"}
        row = {
            **about,
            "Command": "ingest",
            "Arguments": f"{self._about['Stream']}: {what}",
            "DryRun": False,
            "Affected": affected,
            "Outcome": "done",
            "ExitCode": 0,
            "User": user_name(),
            "Message": message,
        }
        self._writer.add(ADMIN, row)

    def ended(self, epoch: int) -> None:
        """The run has ended well, at this epoch."""
        self._end("ended", epoch, None)

    def failed(self, error: BaseException) -> None:
        """The stream has failed, or could not be opened."""
        self._end("failed", None, f"{type(error).__name__}: {error}".splitlines()[0])

    def _end(self, outcome: str, epoch: int | None, message: str | None) -> None:
        if self._writer is not None:
            row = {**self._about, "Epoch": epoch, "Mode": self._mode, "Outcome": outcome, "Message": message}
            self._writer.add(INGEST, row)


def _offsets(before: Mapping[str, int], after: Mapping[str, int]) -> LogRow:
    """Source and offsets of a batch of one topic partition; of several the epoch itself has them."""
    moved = [source for source, position in after.items() if before.get(source) != position]
    if len(moved) != 1 or "/" not in moved[0]:
        return {}
    source = moved[0]
    return {"Source": source, "FirstOffset": before.get(source), "LastOffset": after[source] - 1}
