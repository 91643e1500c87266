"""Whether rows may still be written by a schema that was deployed a moment ago."""

from __future__ import annotations

from sparkhaven.store.errors import SchemaChangeError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.deployed.history import ColumnVersion
from sparkhaven.store.schema.deployed.schema_lock import locked_schemas
from sparkhaven.store.types.model import Column, TableSchema


def require_writable(fs: Fs, layout: Layout, schema: TableSchema) -> None:
    """SchemaChangeError: a version that cannot read rows of ``schema`` was deployed since; no row was written.

    To be called with the lock of the stream held, or of the table for an import: from then on no such version is
    deployed. A version that adds, drops, renames or widens columns is none.
    """
    table = TableName(schema.namespace, schema.name)
    with locked_schemas(fs, layout):
        deployed = load_deployed(TablePlace(fs, layout, table))
    if deployed.version == schema.version:
        return
    names = {column.id: column.name for column in schema.columns}
    retired = (c for c in deployed.retired if c.id in deployed.dropped or deployed.column(names.get(c.id, "")) is None)
    columns = {column.id: column for column in (*deployed.columns, *retired)}
    lost = [column.name for column in schema.columns if not _readable(column, columns.get(column.id))]
    if lost:
        raise SchemaChangeError(
            f"version {deployed.version} of the schema was deployed meanwhile, and has other columns of these names",
            where=layout.schema(table),
            expected=f"the columns of version {schema.version}",
            found=", ".join(lost),
            hint="start again, with that schema",
            table=schema.full_name,
        )


def _readable(column: Column, deployed: Column | None) -> bool:
    """Whether the deployed column finds the values that are written by ``column``."""
    if deployed is None:
        return False
    kinds = {column.kind.name, deployed.kind.name}
    own, declared = ColumnVersion.of(column, 0), ColumnVersion.of(deployed, 0)
    return (own.stored == declared.stored or own.widens_to(declared)) and (
        "PARTITIONING" not in kinds or len(kinds) == 1
    )
