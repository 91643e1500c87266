"""A ``.schema`` file from a table definition, so that reading it gives the definition back.

A definition has no key formula, rules and indexes, so the file has none. A text column whose charset is unset is
in ISO_8859_1, as Deephaven reads it, and the file says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from xml.sax.saxutils import quoteattr

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.format.table.definition import EXTENDED, IN_MEMORY, SPLAYED, Definition, definition_of
from sparkhaven.store.schema.differences import SchemaDifference, column_differences
from sparkhaven.store.schema.document.column_elements import DEFAULT_CHARSET
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.schema.document.vocabulary import EXTENDED_TYPES
from sparkhaven.store.types.datatypes import SERIALIZABLE, coded_row
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

UNSET_CHARSET = "ISO_8859_1"
_ROLES = {Kind.GROUPING: "Grouping", Kind.PARTITIONING: "Partitioning"}


def tbl_schema(definition: Definition, extended: str | None = None) -> TableSchema:
    """The definition as its ``.schema`` says it. Raises what ``Definition.schema`` raises."""
    schema = definition.schema()
    return replace(
        schema,
        nested=definition.storage_type != SPLAYED,
        columns=tuple(_stated(column) for column in schema.columns),
        extended=extended,
    )


def tbl_schema_text(definition: Definition, *, extended: str | None = None) -> str:
    """The file. ``extended``: type of the ``ExtendedStorage``, which the definition of such a table lacks.

    SettingsError: that is missing, or stated for a table without.
    """
    if (definition.storage_type == EXTENDED) != (extended is not None):
        stands = "is of an extended layout" if extended is None else "is not of an extended layout"
        raise SettingsError(
            f"the definition {stands}",
            expected=f"--extended with one of {', '.join(EXTENDED_TYPES)}" if extended is None else "no --extended",
            found=f"storage type {definition.storage_type}, {'no --extended' if extended is None else extended}",
        )
    return "".join(f"{line}\n" for line in _lines(definition, tbl_schema(definition, extended), extended))


def lost_in_text(definition: Definition, text: str) -> tuple[SchemaDifference, ...]:
    """What reading the file gives otherwise. SchemaParseError: a schema cannot say what the definition has."""
    return column_differences(tbl_schema(definition), parse_schema(text.encode(), "").schema)


def _stated(column: Column) -> Column:
    text = column.type.name == "String" or column.storage is Storage.SET
    charset = (column.encoding or UNSET_CHARSET) if text else None
    row = coded_row(column.type.name)
    codec = SERIALIZABLE if column.codec is None and row is not None and row.codec is not None else column.codec
    return replace(column, encoding=charset, codec=codec)


def _lines(definition: Definition, schema: TableSchema, extended: str | None) -> Iterator[str]:
    head = {"namespace": schema.namespace, "name": schema.name}
    splayed = definition.storage_type == SPLAYED
    yield f"<Table{_attributes(head | {'storageType': 'SplayedOnDisk' if splayed else 'NestedPartitionedOnDisk'})}>"
    if definition.storage_type == IN_MEMORY:
        yield "  <!-- of a table in memory -->"
    if extended is not None:
        yield f"  <ExtendedStorage{_attributes({'type': extended})}/>"
    classes = {record.name: record.data_type for record in definition_of(schema).columns}
    for column, record in zip(schema.columns, definition.columns, strict=True):
        if classes[column.name] != record.data_type:
            yield f"  <!-- class {record.data_type.replace('--', '- -')} -->"
        yield f"  <Column{_attributes(_column(column))}/>"
    yield "</Table>"


def _column(column: Column) -> dict[str, str]:
    shown = {"name": column.name, "dataType": column.type.name}
    if column.kind in _ROLES:
        shown["columnType"] = _ROLES[column.kind]
    if column.storage is Storage.BLOB and column.type.name == "String":
        shown["symbolTable"] = "None"
    blob = "symbolTable" in shown
    if column.kind is not Kind.PARTITIONING and column.encoding and (blob or column.encoding != DEFAULT_CHARSET):
        shown["encoding"] = column.encoding
    if column.codec is not None:
        shown["objectCodec"] = column.codec
    if column.codec_args is not None:
        shown["objectCodecArguments"] = column.codec_args
    if column.codec_width is not None:
        shown["objectWidth"] = str(column.codec_width)
    if column.component is not None and f"{column.component.name}[]" != column.type.name:
        shown["componentType"] = column.component.name
    return shown


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items())
