"""A table definition as a ``.tbl`` holds it: Java class names and codes, before they are turned into our types."""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.format.column.charset import BY_CODE, BY_NAME
from sparkhaven.store.format.java.java_values import DB_DATE_TIME, STRING_SET
from sparkhaven.store.format.java.object_reader import FOREIGN
from sparkhaven.store.types.datatypes import DataType, coded_row, data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

IN_MEMORY, NESTED, SPLAYED, EXTENDED = 1, 2, 4, 8
STORAGE_TYPES = (IN_MEMORY, NESTED, SPLAYED, EXTENDED)
COLUMN_TYPES = (1, 2, 4, 8)  # Normal, Grouping, Partitioning, Virtual
_CHARSET_UNSET = 0

_STRING = "java.lang.String"
_TO_CLASS = {"Instant": DB_DATE_TIME, "StringSet": STRING_SET}
_SIMPLE_NAMES = {"DBDateTime": "Instant", "StringSet": "StringSet"}
_ARRAYS = {"Z": "boolean", "B": "byte", "C": "char", "S": "short", "I": "int", "J": "long", "F": "float", "D": "double"}


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column: classes as ``Class.getName()``, ``kind`` and ``encoding`` as codes; None = unset."""

    name: str
    data_type: str
    kind: int = 1
    component: str | None = None
    var_size: bool | None = False  # TRUE: a String without symbol table
    encoding: int | None = None
    codec: str | None = None
    codec_args: str | None = None
    codec_width: int | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One table's definition."""

    namespace: str
    name: str
    columns: tuple[ColumnDefinition, ...]
    storage_type: int = NESTED

    def schema(self) -> TableSchema:
        """The definition as a TableSchema; columns are numbered in definition order.

        A virtual column or a charset code that is not in ``charset.ROWS`` is an UnsupportedVersionError.
        """
        columns = tuple(_column(record, number) for number, record in enumerate(self.columns))
        return TableSchema(self.namespace, self.name, columns, nested=self.storage_type == NESTED)


def definition_of(schema: TableSchema, *, storage_type: int = NESTED) -> Definition:
    """The definition that we write for a schema: an encoding that is None stays unset."""
    return Definition(schema.namespace, schema.name, tuple(_record(c) for c in schema.columns), storage_type)


def class_name(type_: DataType) -> str:
    """The class of a type as a definition names it."""
    return _TO_CLASS.get(type_.name, type_.java)


def _record(column: Column) -> ColumnDefinition:
    component = column.component
    if component is None and column.type.name.endswith("[]"):
        component = data_type(column.type.name.removesuffix("[]"))
    text = column.type.java == _STRING
    return ColumnDefinition(
        column.name,
        class_name(column.type),
        column.kind.value,
        None if component is None else class_name(component),
        text and column.storage is Storage.BLOB,
        BY_NAME[column.encoding].code if column.encoding else None,
        column.codec,
        column.codec_args,
        None if column.storage is Storage.SET else column.codec_width,  # its width is no codec's
    )


def _spelling(java: str) -> str:
    """A class as a schema spells it: by its whole name, by the simple name in another package, as an array."""
    if java.startswith("[L"):
        return java[2:-1].removeprefix("java.lang.") + "[]"
    if java.startswith("[") and java[1:] in _ARRAYS:
        return _ARRAYS[java[1:]] + "[]"
    return _SIMPLE_NAMES.get(java.rpartition(".")[2], java)


def _type(java: str) -> DataType:
    return data_type(_spelling(java))


def _stored_type(record: ColumnDefinition) -> DataType:
    """The type of a column by its class and codec.

    A codec that is not one of the class makes bytes that nobody looks into, as does a class whose values would be
    streams, where they have a codec with us.
    """
    form = _spelling(record.data_type), record.codec, record.codec_args, record.codec_width
    row = coded_row(form[0])
    if row is None:
        return data_type(form[0])
    try:
        return data_type(*form, opaque=record.codec is None and row.codec is not None)
    except ValueError:
        return data_type(*form, opaque=True)


def charset_name(record: ColumnDefinition, where: object = None) -> str | None:
    """Name of the charset of a text column; None where it is unset. Unknown codes are an UnsupportedVersionError."""
    if record.encoding is None or record.encoding == _CHARSET_UNSET:
        return None
    row = BY_CODE.get(record.encoding)
    if row is None:
        raise UnsupportedVersionError(
            f"column {record.name} has an unknown charset code",
            where=where,
            expected=", ".join(map(str, BY_CODE)),
            found=record.encoding,
            hint=FOREIGN,
        )
    return row.name


def _column(record: ColumnDefinition, number: int) -> Column:
    if record.kind == COLUMN_TYPES[-1]:
        raise UnsupportedVersionError(
            f"column {record.name} is virtual, which has no data on disk",
            expected=f"column type {', '.join(str(kind) for kind in COLUMN_TYPES[:-1])}",
            found=record.kind,
            hint=FOREIGN,
        )
    type_, kind = _stored_type(record), Kind(record.kind)
    text = type_.java == _STRING
    if kind is Kind.PARTITIONING:
        storage = Storage.NONE
    elif text:
        storage = Storage.BLOB if record.var_size else Storage.SYMBOL
    elif type_.width:
        storage = Storage.FIXED
    else:
        storage = Storage.SET if type_.name == "StringSet" else Storage.BLOB
    return Column(
        record.name,
        type_,
        kind,
        storage,
        number,
        charset_name(record),
        record.codec,
        record.codec_args,
        record.codec_width,
        None if record.component is None else _type(record.component),
        record.data_type,
    )
