"""The columns of a Delta table, and their names in its data files: the same, or by column mapping others.

With column mapping a data file has *physical* names, or field ids (mode ``id``); so a column can be renamed or dropped
without its files being written again. A name of a file that the table does not map is one of a dropped column.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.delta.log import LOG, Body, damaged, unreadable

Declared = str | Mapping[str, Any]  # a type as the schema of the table has it
_FIELD_ID = b"PARQUET:field_id"
_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column, or a field of a struct."""

    name: str
    type: Declared
    physical: str
    id: str

    @property
    def simple(self) -> str | None:
        """Its type, if that is a simple one."""
        return self.type if isinstance(self.type, str) else None


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """The columns of a table. ``mode`` of column mapping: ``none``, ``name`` or ``id``."""

    columns: tuple[DeltaColumn, ...] = ()
    mode: str = "none"

    @property
    def types(self) -> Mapping[str, str | None]:
        """Names, each with its type if that is a simple one."""
        return {column.name: column.simple for column in self.columns}

    def logical(self, schema: pa.Schema, given: Collection[str]) -> list[MappedField | None]:
        """Of each column of a data file what it is in the table, which may write its name in another case.

        None: the table has dropped it, or the log has its values for this file: ``given`` names such columns. A file
        from before the table was partitioned by a column has that itself. Without column mapping one that the table
        does not have keeps its name.
        """
        fields: list[MappedField | None] = []
        for field in schema:
            column = _find(field, self.columns, self.mode)
            if column is not None and column.name in given:
                fields.append(None)
            elif self.mode == "none":
                fields.append(MappedField(field.name if column is None else column.name))
            else:
                fields.append(None if column is None else MappedField(column.name, column.type, self.mode))
        return fields

    def names_of(self, values: Mapping[str, str | None]) -> dict[str, str | None]:
        """Partition values by the names of columns: the log has physical names, or some in other case."""
        exact = {column.physical: column.name for column in self.columns}
        by_case = {physical.lower(): name for physical, name in exact.items()}
        return {exact.get(name) or by_case.get(name.lower(), name): text for name, text in values.items()}


@dataclass(frozen=True, slots=True)
class MappedField:
    """A column of a data file by its name in the table. ``type`` None: its own names are those of the table."""

    name: str
    type: Declared | None = None
    mode: str = "none"

    def array(self, array: pa.Array) -> pa.Array:
        """The values with the names that fields of structs have in the table, without those that it dropped."""
        return array if self.type is None else _renamed(array, self.type, self.mode)

    def kind(self, kind: pa.DataType) -> pa.DataType:
        """The type of such values."""
        return kind if self.type is None or not pa.types.is_nested(kind) else self.array(pa.array([], kind)).type


def delta_columns(table: Path, metadata: Body) -> DeltaColumns:
    """CorruptFileError for a schema that is none, UnsupportedVersionError for an unknown mode of column mapping."""
    mode = str((metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none"))
    if mode not in ("none", "name", "id"):
        raise unreadable(table, f"column mapping by {mode}", "let another job copy the rows into a table")
    try:
        return DeltaColumns(_columns(json.loads(metadata.get("schemaString") or "{}"), mode), mode)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(table / LOG, f"schemaString: {error!r}") from error


def _columns(struct: Mapping[str, Any], mode: str) -> tuple[DeltaColumn, ...]:
    columns = []
    for field in struct.get("fields", ()):
        notes = field.get("metadata") or {}
        name = str(field["name"])
        physical = str(notes.get(_NAME, name)) if mode != "none" else name
        columns.append(DeltaColumn(name, field.get("type") or "", physical, str(notes.get(_ID, ""))))
    return tuple(columns)


def _find(field: pa.Field, columns: Sequence[DeltaColumn], mode: str) -> DeltaColumn | None:
    field_id = (field.metadata or {}).get(_FIELD_ID, b"").decode("ascii", "replace")
    if mode == "id" and field_id:
        return next((column for column in columns if column.id == field_id), None)
    same = [column for column in columns if column.physical.lower() == field.name.lower()]
    return next((column for column in same if column.physical == field.name), same[0] if same else None)


def _renamed(array: pa.Array, declared: Declared, mode: str) -> pa.Array:
    kind, kinds = array.type, pa.types
    if isinstance(declared, str) or not kinds.is_nested(kind):
        return array
    if array.offset:
        array = array.take(pa.array(np.arange(len(array))))
    empty = array.is_null() if array.null_count else None
    if kinds.is_struct(kind):
        fields, children = [], []
        own = _columns(declared, mode)
        for number in range(kind.num_fields):
            if (column := _find(kind.field(number), own, mode)) is not None:
                children.append(_renamed(array.field(number), column.type, mode))
                fields.append(pa.field(column.name, children[-1].type))
        return pa.StructArray.from_arrays(children, fields=fields, mask=empty) if children else pa.nulls(len(array))
    if kinds.is_map(kind):
        keys = _renamed(array.keys, declared.get("keyType", ""), mode)
        items = _renamed(array.items, declared.get("valueType", ""), mode)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=empty)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        values = _renamed(array.values, declared.get("elementType", ""), mode)
        return type(array).from_arrays(array.offsets, values, mask=empty)
    return array
