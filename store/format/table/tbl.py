"""``table.tbl``: a table's definition as a Java object stream without its header.

Above the stream lies a protocol of one-byte tags: FE, an object followed by RESET; FF, a class by number and name
and then its body. The file starts with the column sets, which say how the rest is laid out. A reader is led by them
and not by position; we write one constant form of them. The persisted columns of a set are read in their order; the
type of each says how it is written. Known names are kept, unknown ones are skipped, missing ones have their default.

The file of a table definition in a directory: ``table.tbl``, else ``<Table>.tbl``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any

from sparkhaven.store.errors import CorruptFileError, SettingsError, UnsupportedVersionError
from sparkhaven.store.format.java.java_values import (
    ALL_CLASSES,
    COLUMN_DEFINITION,
    COLUMN_SET,
    DATA_COLUMN,
    HASH_MAP,
    RESET,
    TABLE_DEFINITION,
    Descriptor,
    JArray,
    JClass,
    JObject,
    OpaqueBytes,
)
from sparkhaven.store.format.java.object_reader import FOREIGN, Reader
from sparkhaven.store.format.java.object_writer import Writer, blocks, utf
from sparkhaven.store.format.table.definition import (
    COLUMN_TYPES,
    NESTED,
    STORAGE_TYPES,
    ColumnDefinition,
    Definition,
    charset_name,
    definition_of,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.codings import modified_utf8
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


_TABLE_NAMES = (
    TABLE_DEFINITION,
    "io.deephaven.db.tables.DefaultTableDefinition",
    "com.illumon.iris.db.tables.TableDefinition",
    "com.illumon.dataobjects.generated.DefaultTableDefinition",
)
_COLUMN_NAMES = (
    COLUMN_DEFINITION,
    "io.deephaven.db.tables.DefaultColumnDefinition",
    "com.illumon.dataobjects.ColumnDefinition",
    "com.illumon.dataobjects.generated.DefaultColumnDefinition",
)
_COLUMN_FIELDS = {field[1] for field in ALL_CLASSES[DATA_COLUMN].fields}
_SET_FIELDS = {"columns_", "name_"}
_NUMBERS = {
    "java.lang.Integer": Struct(">i"),
    "java.lang.Double": Struct(">d"),
    "java.lang.Long": Struct(">q"),
    "java.util.Date": Struct(">q"),
    "java.lang.Byte": Struct(">b"),
}


def _accepts(descriptor: Descriptor) -> bool:
    """Classes of other packages whose objects may occur: by name, or by the fields of a column set or its columns."""
    name = descriptor.name
    element = name[2:-1] if name.startswith("[L") else name
    fields = {field[1] for field in descriptor.fields}
    named = element in _TABLE_NAMES or element in _COLUMN_NAMES
    shaped = fields >= {"columns_", "nameToColumn_", "name_"} or fields >= _COLUMN_FIELDS
    # an array shows no fields: its elements are looked at when they come
    return named or shaped or name.startswith("[L")


class _Cursor:
    """Walks over blocks and objects; primitives may go on from one block into the next."""

    def __init__(self, items: list[Any], where: object) -> None:
        self._items: Iterator[Any] = iter(items)
        self._block = OpaqueBytes(b"", 0)
        self._pos = 0
        self._where = where

    def fail(self, fault: str, *, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(fault, where=self.where(), expected=expected, found=found)

    def where(self) -> str:
        """The file, and the byte."""
        return f"{self._where}, byte {self._block.offset + self._pos}"

    def take(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            if self._pos == len(self._block.data):
                item = next(self._items, None)
                if type(item) is not OpaqueBytes:
                    there = "the end" if item is None else "an object"
                    raise self.fail("primitive data is truncated", expected=f"{count} more bytes", found=there)
                self._block, self._pos = item, 0
            part = self._block.data[self._pos : self._pos + count]
            parts.append(part)
            self._pos += len(part)
            count -= len(part)
        return b"".join(parts)

    def item(self) -> Any:
        if self._pos != len(self._block.data):
            count = len(self._block.data) - self._pos
            raise self.fail("bytes found where an object is expected", expected="an object", found=f"{count} bytes")
        item = next(self._items, self)
        if item is self or type(item) is OpaqueBytes:
            raise self.fail("object is missing", expected="an object", found="the end" if item is self else "a block")
        return item

    def number(self, layout: Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def text(self) -> str | None:
        data = self.take(int.from_bytes(self.take(2), "big"))
        try:
            text = modified_utf8.decode(data)
        except ValueError as error:
            raise self.fail("text is not modified UTF-8", expected="modified UTF-8", found=str(error)) from None
        return None if text == "\0" else text

    def tagged_object(self) -> Any:
        """An object at the top: FE, the object, RESET."""
        self.tag(OBJECT)
        item = self.item()
        if (after := self.item()) is not RESET:
            raise self.fail("top-level object is not followed by RESET", expected="RESET", found=type(after).__name__)
        return item

    def tag(self, expected: int) -> None:
        tag = self.take(1)[0]
        if tag != expected:
            raise self.fail("unexpected tag at the top level", expected=f"{expected:02X}", found=f"{tag:02X}")

    def finish(self) -> None:
        if self._pos != len(self._block.data) or next(self._items, self) is not self:
            raise self.fail("bytes after the end of the definition", expected="the end", found="more")


@dataclass(frozen=True, slots=True)
class _Layout:
    """One column set: persisted columns as (name, class that says how they are written)."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def read(self, cursor: _Cursor, objects: Callable[[], Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, wire in self.columns:
            layout = _NUMBERS.get(wire)
            if wire == "java.lang.String":
                values[name] = cursor.text()
            elif layout is not None:
                number = cursor.number(layout)
                values[name] = None if wire == "java.lang.Integer" and number == UNSET else number
            else:
                values[name] = objects()
        return values


def _layouts(array: Any, cursor: _Cursor) -> dict[str, _Layout]:
    sets = array.items if type(array) is JArray else []
    if not sets or any(type(part) is not JObject or not part.fields.keys() >= _SET_FIELDS for part in sets):
        raise cursor.fail("file does not start with column sets", expected="column sets", found=type(array).__name__)
    layouts = {}
    for part in sets:
        columns, name = part.fields["columns_"], part.fields["name_"]
        items: list[Any] = columns.items if type(columns) is JArray else [None]
        if type(name) is not str or any(type(c) is not JObject or not c.fields.keys() >= _COLUMN_FIELDS for c in items):
            raise cursor.fail("column set contains an entry that is not a column", expected="columns", found=repr(name))
        kept = sorted((c.fields for c in items if c.fields["shouldBeSerialized_"]), key=lambda fields: fields["index_"])
        if any(type(c["name_"]) is not str or type(c["type_"]) is not JClass for c in kept):
            raise cursor.fail("column of a column set has no name or type", expected="both", found=repr(name))
        layouts[name.removeprefix("Default")] = _Layout(name, tuple((c["name_"], c["type_"].name) for c in kept))
    return layouts


def _layout(layouts: dict[str, _Layout], name: str, cursor: _Cursor) -> _Layout:
    if name not in layouts:
        raise cursor.fail("column set is missing", expected=name, found=", ".join(layouts))
    return layouts[name]


def decode_tbl(data: bytes, where: object) -> Definition:
    """The definition in a file's content.

    Damage, trailing bytes and duplicate column name are a CorruptFileError; codes and classes that we do not know an
    UnsupportedVersionError.
    """
    if data[:1] != b"\x77":
        head = data[:1].hex() or "an empty file"
        raise CorruptFileError("file is not a table.tbl", where=f"{where}, byte 0", expected="77", found=head)
    reader = Reader(data, where, allowed=ALL_CLASSES, accepts=_accepts)
    cursor = _Cursor(reader.items(), where)
    layouts = _layouts(cursor.tagged_object(), cursor)
    cursor.tag(CLASS)
    if (code := cursor.take(1)[0]) != NEW_CLASS:
        raise cursor.fail("first class of the file is not a new one", expected="01", found=f"{code:02X}")
    root = cursor.text()
    if root not in _TABLE_NAMES:
        raise UnsupportedVersionError(
            "file does not contain a table definition",
            where=cursor.where(),
            expected=TABLE_DEFINITION,
            found=root,
            hint=FOREIGN,
        )
    values = _layout(layouts, "TableDefinition", cursor).read(cursor, cursor.tagged_object)
    cursor.finish()
    columns = _columns(values.get("Columns"), layouts, cursor, where)
    storage = values.get("StorageType")
    if storage not in STORAGE_TYPES:
        raise _unsupported("storage type", storage, STORAGE_TYPES, cursor.where())
    return Definition(_name(values, "Namespace", cursor), _name(values, "Name", cursor), columns, storage)


def _unsupported(label: str, value: object, codes: tuple[int, ...], where: object) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"unknown {label} in a table definition", where=where, expected=f"one of {codes}", found=value, hint=FOREIGN
    )


def _name(values: dict[str, Any], key: str, cursor: _Cursor) -> str:
    value = values.get(key)
    if type(value) is not str or not value:
        raise cursor.fail(f"definition has no {key}", expected="a text", found=repr(value))
    return value


def _columns(array: Any, layouts: dict[str, _Layout], cursor: _Cursor, where: object) -> tuple[ColumnDefinition, ...]:
    if type(array) is not JArray or any(type(column) is not JObject for column in array.items):
        raise cursor.fail("definition has no array of columns", expected="an array", found=type(array).__name__)
    layout = _layout(layouts, "ColumnDefinition", cursor)
    columns = tuple(_column(column, layout, where) for column in array.items)
    names = [column.name for column in columns]
    doubled = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if doubled:
        raise cursor.fail("duplicate column name", expected="each name once", found=", ".join(doubled))
    return columns


def _column(column: JObject, layout: _Layout, where: object) -> ColumnDefinition:
    cursor = _Cursor(column.content, where)
    if column.class_name not in _COLUMN_NAMES:
        raise cursor.fail(
            "element of the column array is not a column", expected=COLUMN_DEFINITION, found=column.class_name
        )
    values = layout.read(cursor, cursor.item)
    cursor.finish()
    data_type, component, var_size = (values.get(key) for key in ("DataType", "ComponentType", "IsVarSizeString"))
    if type(data_type) is not JClass or type(component) not in (JClass, type(None)):
        raise cursor.fail("column has no class as its type", expected="a class", found=type(data_type).__name__)
    if type(var_size) not in (bool, type(None)):
        raise cursor.fail("IsVarSizeString is not a Boolean", expected="a Boolean", found=type(var_size).__name__)
    record = ColumnDefinition(
        _name(values, "Name", cursor),
        data_type.name,
        values.get("ColumnType") or 0,
        component.name if component else None,
        var_size,
        values.get("Encoding"),
        values.get("ObjectCodecClass"),
        values.get("ObjectCodecArguments"),
        values.get("ObjectWidth"),
    )
    if record.kind not in COLUMN_TYPES:
        raise _unsupported(f"column type of {record.name}", record.kind, COLUMN_TYPES, cursor.where())
    charset_name(record, cursor.where())
    return record
