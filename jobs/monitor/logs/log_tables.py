"""The log tables: their namespace, columns and schemas. A row is a mapping of column names to values.

Rows of IngestLog and EpochLog: what one stream of a process does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from sparkhaven.ingest.feeds.base import DATA_BYTES
from sparkhaven.store.epochs.state.log_values import ABSENT_FIELDS, UNKNOWN_FIELDS
from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName

if TYPE_CHECKING:
    from sparkhaven.jobs.monitor.logs.log_writer import LogWriter
    from sparkhaven.store.epochs.log import StreamLog
    from sparkhaven.store.schema.deployed.deploy import Deployment
    from sparkhaven.writers.batch.stream_batches import BatchProgress


LogRow = Mapping[str, object]
Columns = tuple[tuple[str, str], ...]  # name and data type

TIMESTAMP = "Timestamp"
COMMON: Columns = ((TIMESTAMP, "Instant"), ("RunId", "String"), ("Host", "String"))
"""Columns of every log table, which its writer fills; ``Date`` is the UTC day of ``Timestamp``."""
OF_TABLE: Columns = (("Namespace", "String"), ("TableName", "String"))
TEXT_COLUMNS = frozenset({"RunId", "QueryId", "Message", "Arguments", "Measured", "Lower", "Upper", "Epochs", "Digest"})
"""Texts with as many values as rows: they are stored as bytes, without a symbol table."""


def named(table: TableName | str) -> LogRow:
    parsed = table if isinstance(table, TableName) else TableName.parse(table)
    return {"Namespace": parsed.namespace, "TableName": parsed.table}


def user_name() -> str | None:
    """Who runs this process; None for a user without a name."""
    from getpass import getuser  # imports slow modules

    with suppress(KeyError, OSError, ImportError):
        return getuser()
    return None


def _of_table(*texts: str) -> Columns:
    """Columns of a log about tables: names and data types, separated by commas."""
    return *OF_TABLE, *((name, kind) for name, kind in map(str.split, ", ".join(texts).split(", ")))


@dataclass(frozen=True, slots=True)
class LogTable:
    """One log table; ``columns`` are those of its own."""

    name: str
    about: str
    columns: Columns

    @property
    def table(self) -> TableName:
        return TableName(INTERNAL_NAMESPACE, self.name)

    @property
    def all_columns(self) -> Columns:
        return (*COMMON, *self.columns)

    def schema(self) -> bytes:
        """The ``.schema`` document, which the writer deploys. The same release always makes the same bytes."""
        lines = [
            f'<Table namespace="{INTERNAL_NAMESPACE}" name="{self.name}" storageType="NestedPartitionedOnDisk" '
            f"description={quoteattr(self.about)}>",
            '  <Partitions keyFormula="${autobalance_single}"/>',
            '  <Column name="Date" dataType="String" columnType="Partitioning"/>',
        ]
        for name, kind in self.all_columns:
            blob = ' symbolTable="None"' if name in TEXT_COLUMNS else ""
            lines.append(f'  <Column name="{name}" dataType="{kind}"{blob}/>')
        return "\n".join([*lines, "</Table>", ""]).encode()


INGEST = LogTable(
    "IngestLog",
    "One row a batch of a stream, and one for each end or failure of a stream.",
    _of_table(
        "Stream String, Source String, BatchId long, Epoch long, Rows long, Rejected long, UnknownFields long, "
        "AbsentFields long, Bytes long",
        "FirstOffset long, LastOffset long, Lag long, DurationMs long, SyncMs long, Mode String, Outcome String, "
        "Message String",
    ),
)
EPOCH = LogTable(
    "EpochLog",
    "One row an epoch: batches and rollbacks.",
    _of_table(
        "Stream String, Epoch long, Kind String, Locations long, Rows long, SchemaId long, Generation long, "
        "QueryId String, Digest String"
    ),
)
MERGE = LogTable(
    "MergeLog",
    "One row a date and merge, with Outcome, and one for each of its phases, whose Outcome is phase.",
    _of_table(
        "Partition String, Phase String, RowsIn long, RowsOut long, RowsDropped long, Destinations long, "
        "Generation long, DurationMs long, Outcome String, Message String"
    ),
)
VALIDATION = LogTable(
    "ValidationLog",
    "One row a rule, date and validation.",
    _of_table(
        "Partition String, Mode String, Rule String, Column String, Measured String, Lower String, Upper String, "
        "Passed Boolean, Epochs String, Message String"
    ),
)
ADMIN = LogTable(
    "AdminLog",
    "One row a command that changes a table, or would with --dry-run.",
    _of_table(
        "Command String, Arguments String, DryRun Boolean, Affected long, DurationMs long, Outcome String, "
        "ExitCode int, User String, Message String"
    ),
)
STORAGE = LogTable(
    "StorageLog",
    "Bytes by volume, after each merge: of the table, and with Partition of each merged date.",
    _of_table("Volume String, Bytes long, Files long, WasteBytes long, Partition String"),
)
LOG_TABLES = (INGEST, EPOCH, MERGE, VALIDATION, ADMIN, STORAGE)


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
