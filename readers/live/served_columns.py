"""The columns of a table as an engine gets them; what it cannot take is refused when the table is opened."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from sparkhaven.readers.live.live_values import live_field
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.types.model import Column, TableSchema

_WORDS = (
    "abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do|double|else|enum|extends|"
    "false|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|native|new|null|"
    "package|private|protected|public|return|short|static|strictfp|super|switch|synchronized|this|throw|throws|"
    "transient|true|try|void|volatile|while|in|not|i|ii|k"
)
RESERVED = frozenset(_WORDS.split("|"))  # Java's, and those of Deephaven's query language


@dataclass(frozen=True, slots=True)
class ServedSchema:
    """Arrow schemas of the stored columns and of the partitioning column, and the stored columns themselves."""

    data: pa.Schema
    partition: pa.Schema
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def known_as(self, deployed: TableSchema) -> ServedSchema:
        """The same columns, with every name that their files may have by a later version of the schema."""
        names = {c.id: (c.name, *c.labels) for c in (*deployed.columns, *deployed.retired)}
        later = tuple(
            replace(c, labels=tuple(name for name in names.get(c.id, c.labels) if name != c.name)) for c in self.columns
        )
        return ServedSchema(self.data, self.partition, later)


def served_schema(schema: TableSchema) -> ServedSchema:
    """UnsupportedVersionError: a column has a type that cannot be served. SettingsError: a name that engines refuse.

    SchemaMismatchError: two names differ in case only.
    """
    read = f"`sparkhaven read {schema.full_name}` reads the table"
    refuse_case_twins(schema.full_name, schema.columns, "clients of an engine", read)
    for column in schema.columns:
        if column.name in RESERVED:
            raise SettingsError(
                f"column {column.name} of {schema.full_name} cannot be served. Its name is reserved",
                expected="no word of Java or of Deephaven's query language",
                found=column.name,
                hint=f"name the other tables, or read this one: `sparkhaven read {schema.full_name}`",
            )
    data = pa.schema([live_field(column) for column in schema.stored])
    by = schema.partitioning
    partition = pa.schema([pa.field(by.name, pa.string())] if by else [])
    return ServedSchema(data, partition, schema.stored)
