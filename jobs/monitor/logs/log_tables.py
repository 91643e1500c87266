"""The log tables: their namespace, columns and schemas. A row is a mapping of column names to values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from sparkhaven.store.layout import INTERNAL_NAMESPACE, TableName

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
