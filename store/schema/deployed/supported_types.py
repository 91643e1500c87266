"""What this release can store of a schema, and what a table may be called."""

from __future__ import annotations

from collections.abc import Iterable

from sparkhaven.store.errors import InvalidNameError, UnsupportedVersionError
from sparkhaven.store.layout import TableName
from sparkhaven.store.schema.document.schema_file import SchemaFile
from sparkhaven.store.types.model import Kind


def check_supported(file: SchemaFile) -> None:
    """UnsupportedVersionError for a schema whose rows no stream could store."""
    if not file.schema.nested:
        raise UnsupportedVersionError(
            f"{file.schema.full_name} is not a nested partitioned table",
            where=file.name,
            expected='storageType="NestedPartitionedOnDisk"',
            found='storageType="SplayedOnDisk"',
            hint="this release writes nested partitioned tables only",
        )
    partitioning = [c.name for c in file.schema.columns if c.kind is Kind.PARTITIONING]
    if len(partitioning) != 1:  # which the schema language allows beside ExtendedStorage
        raise UnsupportedVersionError(
            f"{file.schema.full_name} has {len(partitioning)} partitioning columns",
            where=file.name,
            expected="one Partitioning column",
            found=", ".join(partitioning) or "none",
            hint="make the others Normal. Their values would not be stored",
        )


def refuse_table_twin(table: TableName, tables: Iterable[TableName]) -> None:
    """InvalidNameError for a new table whose name differs from that of another one in case only."""
    twin = next((other for other in tables if str(other).lower() == str(table).lower() and other != table), None)
    if twin is not None:
        raise InvalidNameError(
            f"the names {table} and {twin} differ in case only",
            where=table,
            expected="a name that differs from those of the other tables by more than case",
            found=twin,
            hint=f"write {twin} if that table is meant, else choose another name. SQL and many file systems ignore"
            " case",
        )
