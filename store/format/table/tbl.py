"""``table.tbl``: a table's definition as a Java object stream without its header.

Above the stream lies a protocol of one-byte tags: FE, an object followed by RESET; FF, a class by number and name
and then its body. The file starts with the column sets, which say how the rest is laid out; readers follow them
(``tblread``), we write one constant form of them.

The file of a table definition in a directory: ``table.tbl``, else ``<Table>.tbl``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, SettingsError, UnsupportedVersionError
from sparkhaven.store.format.java.java_values import (
    COLUMN_DEFINITION,
    COLUMN_SET,
    DATA_COLUMN,
    HASH_MAP,
    TABLE_DEFINITION,
)
from sparkhaven.store.format.java.object_writer import Writer, blocks, utf
from sparkhaven.store.format.table.definition import (
    COLUMN_TYPES,
    NESTED,
    STORAGE_TYPES,
    ColumnDefinition,
    Definition,
    definition_of,
)
from sparkhaven.store.format.table.tbl_reader import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import TableSchema

OBJECT, CLASS, NEW_CLASS = 0xFE, 0xFF, 0x01
NULL_TEXT, UNSET = "\0", -(2**31)
_INT = struct.Struct(">i")
_FLAGS = struct.Struct(">i???")

_TEXT = ("java.lang.String", "java.lang.String")
_NUMBER = ("int", "java.lang.Integer")
_BOOLEAN = ("java.lang.Boolean", "java.lang.Boolean")
_CLASS = ("java.lang.Object", "java.lang.Object")
_COLUMNS = (f"[L{COLUMN_DEFINITION};", f"[L{COLUMN_DEFINITION};")


@dataclass(frozen=True, slots=True)
class _Set:
    """One column set: columns in index order as (name, (javaType_, type_)), keys, and the order of the map."""

    name: str
    columns: tuple[tuple[str, tuple[str, str]], ...]
    keys: tuple[str, ...]
    map_order: tuple[str, ...]


_SETS = (
    _Set(
        "TableDefinition",
        (("Namespace", _TEXT), ("Name", _TEXT), ("Columns", _COLUMNS), ("StorageType", _NUMBER)),
        ("Name", "Namespace"),
        ("StorageType", "Columns", "Namespace", "Name"),
    ),
    _Set(
        "ColumnDefinition",
        (
            ("Name", _TEXT),
            ("DataType", _CLASS),
            ("ComponentType", _CLASS),
            ("ColumnType", _NUMBER),
            ("IsVarSizeString", _BOOLEAN),
            ("Encoding", _NUMBER),
            ("ObjectCodecClass", _TEXT),
            ("ObjectCodecArguments", _TEXT),
            ("ObjectWidth", _NUMBER),
        ),
        ("Name",),
        (  # the order in which Java's HashMap walks these names
            "IsVarSizeString",
            "ComponentType",
            "ColumnType",
            "ObjectCodecArguments",
            "ObjectWidth",
            "DataType",
            "Encoding",
            "ObjectCodecClass",
            "Name",
        ),
    ),
)


@cache
def column_sets() -> bytes:
    """The start of every file that we write: tag, column sets, RESET."""
    writer = Writer(blocks(bytes((OBJECT,))))
    writer.array_head(f"[L{COLUMN_SET};", len(_SETS))
    classes: dict[str, int] = {}
    for column_set in _SETS:
        _write_set(writer, column_set, classes)
    writer.reset()
    return bytes(writer.out)


def _write_set(writer: Writer, column_set: _Set, classes: dict[str, int]) -> None:
    def write_class(name: str) -> None:
        if name in classes:
            writer.reference(classes[name])
        else:
            classes[name] = writer.class_token(name)

    columns: dict[str, int] = {}
    names: dict[str, int] = {}
    writer.object_head(COLUMN_SET)
    writer.array_head(f"[L{DATA_COLUMN};", len(column_set.columns))
    for index, (name, (java_type, wire_type)) in enumerate(column_set.columns):
        columns[name] = writer.object_head(DATA_COLUMN)
        writer.out += _FLAGS.pack(index, name in column_set.keys, False, True)
        names[name] = writer.string(name)  # abbreviation, label and name are one string
        writer.null()
        write_class(java_type)
        writer.reference(names[name])
        writer.reference(names[name])
        write_class(wire_type)
    writer.null()
    writer.array_head(f"[L{DATA_COLUMN};", len(column_set.keys))
    for key in column_set.keys:
        writer.reference(columns[key])
    writer.map_head(len(column_set.columns), HASH_MAP)
    for name in column_set.map_order:
        writer.reference(names[name])
        writer.reference(columns[name])
    writer.map_end(HASH_MAP)
    writer.string(column_set.name)


def _text(text: str | None) -> bytes:
    return utf(NULL_TEXT if text is None else text)


def _number(value: int | None) -> bytes:
    return _INT.pack(UNSET if value is None else value)


def _write_columns(writer: Writer, columns: tuple[ColumnDefinition, ...]) -> None:
    classes: dict[str, int] = {}
    booleans: dict[bool, int] = {}
    writer.array_head(f"[L{COLUMN_DEFINITION};", len(columns))
    for column in columns:
        writer.object_head(COLUMN_DEFINITION)
        writer.out += blocks(_text(column.name))
        for name in (column.data_type, column.component):
            if name is None:
                writer.null()
            elif name in classes:
                writer.reference(classes[name])
            else:
                classes[name] = writer.class_token(name)
        writer.out += blocks(_number(column.kind))
        flag = column.var_size
        if flag is None:
            writer.null()
        elif flag in booleans:
            writer.reference(booleans[flag])
        else:
            booleans[flag] = writer.object_head("java.lang.Boolean")
            writer.out.append(flag)
        tail = (_number(column.encoding), _text(column.codec), _text(column.codec_args), _number(column.codec_width))
        writer.out += blocks(b"".join(tail)) + b"\x78"


def encode_tbl(table: TableSchema | Definition, *, storage_type: int = NESTED) -> bytes:
    """The file's content for a schema, or for a definition (which has its own storage type).

    Unknown storage and column types are an UnsupportedVersionError.
    """
    definition = definition_of(table, storage_type=storage_type) if isinstance(table, TableSchema) else table
    if definition.storage_type not in STORAGE_TYPES or any(c.kind not in COLUMN_TYPES for c in definition.columns):
        raise UnsupportedVersionError("definition has an unknown storage or column type", found=definition.storage_type)
    head = bytes((CLASS, NEW_CLASS)) + utf(TABLE_DEFINITION) + _text(definition.namespace) + _text(definition.name)
    writer = Writer(column_sets() + blocks(head + bytes((OBJECT,))))
    _write_columns(writer, definition.columns)
    writer.reset()
    return bytes(writer.out) + blocks(_INT.pack(definition.storage_type))


__all__ = ["Definition", "column_sets", "decode_tbl", "encode_tbl"]


NAME = "table.tbl"


def definition_name(names: Collection[str], table: str) -> str | None:
    """Which of the files of a directory has the definition of a table."""
    return next((name for name in (NAME, f"{table}.tbl") if name in names), None)


def read_definition(fs: Fs, path: Path) -> tuple[Definition, Path]:
    """The definition of a file or of a location's directory, and where it lies. SettingsError: there is none."""
    if fs.is_dir(path):
        names = [name for name in fs.names(path) if name.endswith(".tbl")]
        name = definition_name(names, path.name) or (names[0] if len(names) == 1 else None)
        if name is None:
            others = ", ".join(names) or "no .tbl file"
            raise SettingsError("directory has no table definition", where=path, expected=NAME, found=others)
        path = path / name
    try:
        data = fs.read(path)
    except FileNotFoundError:
        raise SettingsError("no such file", where=path, expected="a .tbl file, or a directory with one") from None
    if not data:
        raise CorruptFileError("table definition is empty", where=path, expected="a definition", found="0 bytes")
    return decode_tbl(data, path), path
