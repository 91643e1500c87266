"""The prefix of a ``.dat`` file: byte order, width, type and grouping of a column, before row 0.

A ``java.util.LinkedHashMap`` as a Java stream, then zeros up to ``dataOffset``, where the data region starts. Keys::

    version     Integer  1
    byteOrder   String   LITTLE_ENDIAN (what we write) or BIG_ENDIAN: of the data region and of .sym
    dataOffset  Long     4096, or the next multiple of it that the map fits below
    dataType    String   as Class.getName()
    width       Integer  bytes per row; of a String 4 (symbol) or 8 (blob)
    encoding    String   charset, of text only
    columnId    Integer  never given to another column of the table; without it the file is matched by name
    overflow    Boolean  TRUE: the grouping is in an .ovr file
    metadata    LinkedHashMap or null: the grouping

Readers take order and width from the prefix and compare the rest with the definition; unknown keys are ignored. The
prefix of a file that readers may have open never changes.

No checksum covers these bytes, and none is needed: the encoding is canonical. A reader encodes what it has decoded
and compares, up to the last zero before the data, so a change that leaves the prefix readable is found too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from sparkhaven.store import next_steps
from sparkhaven.store.errors import (
    CorruptFileError,
    FormatError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from sparkhaven.store.format.index.grouping import GroupRanges, box_of, encode_ovr, read_map, write_map
from sparkhaven.store.format.java.java_values import JInt, JLong, JMap
from sparkhaven.store.format.java.object_reader import FOREIGN, Reader
from sparkhaven.store.format.java.object_writer import FIRST_HANDLE, Writer
from sparkhaven.store.types.datatypes import TYPES
from sparkhaven.store.types.model import CHARSETS, Column, Storage

ByteOrder = Literal["LITTLE_ENDIAN", "BIG_ENDIAN"]
LITTLE: ByteOrder = "LITTLE_ENDIAN"
BIG: ByteOrder = "BIG_ENDIAN"
VERSION = 1
PAGE = DATA_OFFSET = 4096
CLASS = b"\x72"  # a class that is declared, not referred to
_ID = struct.Struct(">i")
_ID_KEY = b"\x74\x00\x08columnId\x73\x71\x00\x7e\x00\x04"  # and an Integer, whose class is declared before
_ANY_ID = -0x5EED  # no column has a negative one
MIN_RANGE = 24  # bytes that a range of a grouping takes at least
MAX_DATA_OFFSET = 64 << 20
DEFAULT_CHARSET = "ISO_8859_1"  # what Deephaven assumes where nothing is set

_FIXED_WIDTHS = {row.java: row.width for row in TYPES if row.width}
_STRING, _STRING_SET = "java.lang.String", "io.deephaven.stringset.StringSet"
_KEYS = frozenset(
    ("version", "byteOrder", "dataOffset", "dataType", "width", "encoding", "columnId", "overflow", "metadata")
)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The content of a prefix. ``metadata`` is the raw map of an inline grouping; ``length`` the object's bytes.

    ``column_id`` None means that the file is matched by name. ``encoding`` is None unless a string type. ``unknown``:
    keys that readers ignore.
    """

    byte_order: ByteOrder
    data_offset: int
    data_type: str
    width: int
    encoding: str | None
    column_id: int | None
    overflow: bool
    metadata: JMap | None
    length: int
    unknown: tuple[str, ...] = ()

    def grouping(self, column: Column, where: object) -> GroupRanges | None:
        """The inline grouping, not yet checked against the row count; None if there is none here."""
        return None if self.metadata is None else read_map(self.metadata, column.type, where)


def charset_of(column: Column) -> str:
    """The charset of a column's bytes: the declared one, else what Deephaven assumes."""
    return column.encoding or DEFAULT_CHARSET


def _has_charset(java: str) -> bool:
    return java in (_STRING, _STRING_SET)


def _encode(column: Column, offset: int, grouping: GroupRanges | None, overflow: bool) -> bytes:
    writer = _begun(column, offset, overflow)
    if grouping is None:
        writer.null()
    else:
        write_map(writer, grouping)
    writer.map_end()
    return bytes(writer.out)


def grouping_keys(column: Column) -> tuple[int, bytes, bool]:
    """How keys stand in the grouping inside of the prefix of this column, for a reader in another language.

    How many things have a number before the map of the grouping; what stands before the value of a boxed key (nothing,
    of texts) where one comes first; and whether its class is declared there.
    """
    writer = _begun(column, PAGE, False)
    begun, before = len(writer.out), writer.take_handle() - FIRST_HANDLE
    if column.type.name != "String":
        writer.object_head(box_of(column.type))
    head = bytes(writer.out[begun:])
    return before, head, head[1:2] == CLASS


def _begun(column: Column, offset: int, overflow: bool) -> Writer:
    """A prefix up to the key of its grouping."""
    writer = Writer()
    entries: list[tuple[Any, Any]] = [
        ("version", JInt(VERSION)),
        ("byteOrder", LITTLE),
        ("dataOffset", JLong(offset)),
        ("dataType", column.type.java),
        ("width", JInt(column.width)),
    ]
    if _has_charset(column.type.java):
        entries.append(("encoding", charset_of(column)))
    entries += [("columnId", JInt(column.id)), ("overflow", overflow)]
    writer.map_head(len(entries) + 1)
    for key, value in entries:
        writer.value(key)
        writer.value(value)
    writer.string("metadata")
    return writer


def encode_prefix(column: Column, *, grouping: GroupRanges | None = None, overflow: bool = False) -> bytes:
    """The padded prefix of a new ``.dat`` file.

    A grouping that does not fit the prefix, or one beside ``overflow``, is a SchemaMismatchError:
    ``prefix_with_grouping`` decides between the two places.
    """
    if column.storage is Storage.NONE or column.width == 0:
        raise SchemaMismatchError(
            "column has no .dat file",
            where=f"column {column.name}",
            found=f"{column.type.name}, {column.storage.value}",
        )
    data = _encode(column, PAGE, None, overflow)
    offset = PAGE * -(-len(data) // PAGE)
    if offset > PAGE or grouping is not None:
        data = _encode(column, offset, grouping, overflow)
    if len(data) > offset or (overflow and grouping is not None):
        raise SchemaMismatchError(
            "grouping does not fit the prefix",
            where=f"column {column.name}",
            expected=f"at most {offset} bytes",
            found=f"{len(data)} bytes",
            hint="write it as an overflow file",
        )
    return data + bytes(offset - len(data))


@lru_cache(maxsize=4096)
def plain_prefix(column: Column) -> bytes:
    """The prefix of a column without grouping, which is the same in all locations."""
    return encode_prefix(column)


def prefix_with_grouping(column: Column, grouping: GroupRanges) -> tuple[bytes, bytes | None]:
    """The prefix of a file that will not grow, and the content of its ``.ovr`` if the grouping needs one."""
    few = len(grouping) <= PAGE // MIN_RANGE
    if few and len(_encode(column, PAGE, grouping, False)) <= PAGE:
        return encode_prefix(column, grouping=grouping), None
    return encode_prefix(column, overflow=True), encode_ovr(grouping)


def decode_prefix(data: bytes, where: object) -> Prefix:
    """The prefix at the start of ``data``, which must reach at least to the end of the object, better to the first row.

    Damage, also where the bytes are readable but not those that the content is written as, is a CorruptFileError,
    another writer's prefix or version an UnsupportedVersionError, parts that contradict each other a
    SchemaMismatchError.
    """
    if len(data) <= PAGE:
        key = data.find(_ID_KEY)
        try:
            if key < 0:
                return _decode_cached(data)
            number = key + len(_ID_KEY)
            alike = _decode_cached(data[:number] + _ID.pack(_ANY_ID) + data[number + _ID.size :])
            if alike.column_id == _ANY_ID:  # so the bytes there are the id
                return replace(alike, column_id=_ID.unpack_from(data, number)[0])
        except (FormatError, SchemaError):
            pass  # once more below, for the place
    return _decode(data, where)


def _decode(data: bytes, where: object) -> Prefix:
    reader = Reader(data, where)
    reader.header()
    try:
        decoded = reader.value()
    except UnsupportedVersionError as error:
        raise _foreign(where, error.found) from error
    if type(decoded) is not JMap:
        raise _foreign(where, type(decoded).__name__)
    entries = decoded.named()
    if entries is None or "version" not in entries:
        raise _foreign(where, decoded.class_name)
    prefix = _prefix(entries, reader, where)
    _require_one_form(data, decoded, prefix, where)
    return prefix


def _require_one_form(data: bytes, content: JMap, prefix: Prefix, where: object) -> None:
    """A CorruptFileError where the bytes before the data are not those in which we write this map."""
    writer = Writer()
    try:
        writer.value(content)
    except (TypeError, SchemaMismatchError) as error:
        raise CorruptFileError(
            "prefix contains a value that is not allowed in a prefix",
            where=f"{where}, byte 4",
            expected="texts, numbers, Booleans, and maps of them",
            found=error,
        ) from error
    end = min(len(data), prefix.data_offset)
    if len(writer.out) == prefix.length <= end and data[:end] == bytes(writer.out).ljust(end, b"\0"):
        return
    stored = np.frombuffer(data, np.uint8, end)
    wanted = np.zeros(max(len(stored), len(writer.out)), np.uint8)
    wanted[: len(writer.out)] = writer.out
    differ = np.flatnonzero(stored != wanted[: len(stored)])
    if len(differ) or len(writer.out) != prefix.length:
        offset = int(differ[0]) if len(differ) else min(prefix.length, len(writer.out))
        raise CorruptFileError(
            "prefix is damaged. Its bytes differ from the canonical encoding of its content",
            where=f"{where}, byte {offset}",
            expected=f"{wanted[offset]:02x}",
            found=f"{stored[offset]:02x}" if offset < len(stored) else "the end",
        )


# the prefixes of one type are alike but for the id, and decoding one costs more than mapping its file
_decode_cached = lru_cache(maxsize=4096)(lambda data: _decode(data, "prefix"))


def _foreign(where: object, class_name: str | None) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        "prefix was written by another program",
        where=f"{where}, byte 4",
        expected="a map with the key version",
        found=class_name,
        hint=FOREIGN,
    )


def _prefix(entries: dict[str, Any], reader: Reader, where: object) -> Prefix:
    def take(key: str, kind: type, *, optional: bool = False) -> Any:
        value = entries.get(key)
        if type(value) is kind or (optional and value is None):
            return value
        stated = type(value).__name__ if key in entries else "nothing"
        raise reader.fail(f"prefix key {key!r} is missing or of another type", 4, expected=kind.__name__, found=stated)

    version = take("version", JInt)
    if version != VERSION:
        raise UnsupportedVersionError(
            "prefix has an unknown version",
            where=f"{where}, byte 4",
            expected=VERSION,
            found=int(version),
            hint=FOREIGN,
        )
    order = take("byteOrder", str)
    if order not in (LITTLE, BIG):
        raise reader.fail("unknown byte order", 4, expected=f"{LITTLE} or {BIG}", found=repr(order))
    offset = int(take("dataOffset", JLong))
    if offset % PAGE or not reader.pos <= offset <= MAX_DATA_OFFSET:
        raise reader.fail(
            "invalid data offset", 4, expected=f"a multiple of {PAGE} from {reader.pos} to 64 MiB", found=offset
        )
    java, width = take("dataType", str), int(take("width", JInt))
    encoding = take("encoding", str, optional=True)
    _agree(java, width, encoding, where)
    column_id = take("columnId", JInt, optional=True)
    unknown = tuple(sorted(entries.keys() - _KEYS))
    if column_id is None and unknown:  # a name that a flipped bit has made unknown
        names = ", ".join(sorted(entries))
        raise reader.fail("prefix has unknown keys and no 'columnId'", 4, expected="columnId", found=names)
    number = None if column_id is None else int(column_id)
    overflow, metadata = take("overflow", bool), take("metadata", JMap, optional=True)
    if "metadata" not in entries or (overflow and metadata is not None):
        stated = "no metadata" if "metadata" not in entries else "a map beside overflow"
        raise reader.fail(
            "grouping is missing or occurs twice", 4, expected="metadata, null beside overflow", found=stated
        )
    return Prefix(order, offset, java, width, encoding, number, overflow, metadata, reader.pos, unknown)


def _agree(java: str, width: int, encoding: str | None, where: object) -> None:
    widths = (4, 8) if java == _STRING else (_FIXED_WIDTHS.get(java, width),)
    charset = encoding in CHARSETS if _has_charset(java) else encoding is None
    if width not in widths or width <= 0 or not charset:
        raise SchemaMismatchError(
            "type, width and charset of the prefix contradict each other",
            where=f"{where}, byte 4",
            expected=f"{java}: width {' or '.join(map(str, widths))}, "
            + (f"encoding one of {', '.join(CHARSETS)}" if _has_charset(java) else "no encoding"),
            found=f"width {width}, encoding {encoding}",
            hint=next_steps.damaged(where),
        )


def check_prefix(prefix: Prefix, column: Column, where: object) -> None:
    """A prefix that disagrees with the column's definition is a SchemaMismatchError."""
    declared = (column.type.java, column.width, charset_of(column) if _has_charset(column.type.java) else None)
    written = (prefix.data_type, prefix.width, prefix.encoding)
    if declared != written:
        raise SchemaMismatchError(
            f"column {column.name} is declared one way and stored another",
            where=f"{where}, byte 4",
            expected="type {}, width {}, encoding {}".format(*declared),
            found="type {}, width {}, encoding {}".format(*written),
            hint=f"`sparkhaven inspect {where}` shows what is stored. Deploy the schema that wrote these files, or give"
            " the column a new name",
        )
