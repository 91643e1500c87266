"""Writes the subset of Java's object streams that our files use.

Values are written in full; only class descriptors (and what a caller asks for by handle) are referred to.
The same calls give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.java.java_values import (
    HASH_MAP,
    LINKED_HASH_MAP,
    LONGS,
    JByte,
    JChar,
    JDouble,
    JFloat,
    JInt,
    JLong,
    JMap,
    JNumbers,
    JShort,
    java_class,
)
from sparkhaven.store.types.codings import modified_utf8

STREAM_HEADER = b"\xac\xed\x00\x05"
FIRST_HANDLE = 0x7E0000
MAX_UTF = 0xFFFF
MAX_SHORT_BLOCK, MAX_BLOCK = 0xFF, 1024
LOAD_FACTOR = 0x3F400000  # 0.75f

_I4, _I8, _U2 = Struct(">i"), Struct(">q"), Struct(">H")
_HANDLE = Struct(">Bi")
_DESCRIPTOR = Struct(">QBH")
_MAP_HEAD = Struct(">iiBBii")
_STRING = Struct(">BH")
_LONG_STRING = Struct(">Bq")
_PAIR = Struct(">iqq")
_TAG_BLOCK_LONG = Struct(">Bi")
_UNIQUE: dict[type, tuple[str, Struct]] = {
    bool: ("java.lang.Boolean", Struct(">?")),
    JByte: ("java.lang.Byte", Struct(">b")),
    JChar: ("java.lang.Character", _U2),
    JShort: ("java.lang.Short", Struct(">h")),
    JInt: ("java.lang.Integer", _I4),
    JLong: ("java.lang.Long", _I8),
    JFloat: ("java.lang.Float", Struct(">f")),
    JDouble: ("java.lang.Double", Struct(">d")),
}

BOX_CLASSES: dict[type, str] = {kind: name for kind, (name, _) in _UNIQUE.items()}


def utf(text: str) -> bytes:
    """A length of two bytes and modified UTF-8; longer than 65,535 bytes is a SchemaMismatchError."""
    data = modified_utf8.encode(text)
    if len(data) > MAX_UTF:
        raise SchemaMismatchError(
            "text is too long for a Java UTF field", expected=f"{MAX_UTF} bytes", found=f"{len(data)} bytes"
        )
    return _U2.pack(len(data)) + data


def blocks(data: bytes) -> bytes:
    """Primitive data as ObjectOutputStream cuts it: blocks of 1024 bytes, the short form up to 255."""
    out = bytearray()
    for start in range(0, len(data), MAX_BLOCK):
        part = data[start : start + MAX_BLOCK]
        out += bytes((0x77, len(part))) if len(part) <= MAX_SHORT_BLOCK else _TAG_BLOCK_LONG.pack(0x7A, len(part))
        out += part
    return bytes(out)


def map_buckets(count: int) -> int:
    """Buckets of a HashMap: the smallest power of two from 16 on that is at most three quarters full."""
    buckets = 16
    while 4 * count > 3 * buckets:
        buckets *= 2
    return buckets


class Writer:
    """A growing stream: ``out`` has the bytes, methods append to it and return the handle they took."""

    def __init__(self, header: bytes = STREAM_HEADER) -> None:
        self.out = bytearray(header)
        self._next = FIRST_HANDLE
        self._classes: dict[str, int] = {}
        self._signatures: dict[str, int] = {}
        self._simple: dict[type, Callable[[Any], object]] = {
            str: self.string,
            JMap: lambda value: self.map_entries(value.entries),
            dict: lambda value: self.map_entries(list(value.items())),
            JNumbers: self._numbers,
        }

    def reset(self) -> None:
        """Writes RESET: handles start again."""
        self.out.append(0x79)
        self._next = FIRST_HANDLE
        self._classes.clear()
        self._signatures.clear()

    def take_handle(self) -> int:
        self._next += 1
        return self._next - 1

    def null(self) -> None:
        self.out.append(0x70)

    def reference(self, handle: int) -> None:
        self.out += _HANDLE.pack(0x71, handle)

    def string(self, text: str) -> int:
        data = modified_utf8.encode(text)
        if len(data) <= MAX_UTF:
            self.out += _STRING.pack(0x74, len(data))
        else:
            self.out += _LONG_STRING.pack(0x7C, len(data))
        self.out += data
        return self.take_handle()

    def descriptor(self, name: str) -> None:
        """Writes a class descriptor, or a reference to it when the stream already has it."""
        handle = self._classes.get(name)
        if handle is not None:
            self.reference(handle)
            return
        row = java_class(name)
        self.out.append(0x72)
        self.out += utf(name)
        self._classes[name] = self.take_handle()
        self.out += _DESCRIPTOR.pack(row.suid, row.flags, len(row.fields))
        for letter, field_name, *signature in row.fields:
            self.out += letter.encode("ascii") + utf(field_name)
            for text in signature:
                self._signature(text)
        self.out.append(0x78)
        if row.parent is None:
            self.null()
        else:
            self.descriptor(row.parent)

    def _signature(self, text: str) -> None:
        handle = self._signatures.get(text)
        if handle is not None:
            self.reference(handle)
        else:
            self._signatures[text] = self.string(text)

    def class_token(self, name: str) -> int:
        self.out.append(0x76)
        self.descriptor(name)
        return self.take_handle()

    def object_head(self, name: str) -> int:
        """Starts an object: its field values are the caller's to write."""
        self.out.append(0x73)
        self.descriptor(name)
        return self.take_handle()

    def array_head(self, name: str, length: int) -> int:
        """Starts an array: its elements are the caller's to write."""
        self.out.append(0x75)
        self.descriptor(name)
        handle = self.take_handle()
        self.out += _I4.pack(length)
        return handle

    def long_pair(self, first: int, second: int) -> None:
        self.out.append(0x75)
        self.descriptor(LONGS)
        self.take_handle()
        self.out += _PAIR.pack(2, first, second)

    def _numbers(self, numbers: JNumbers) -> None:
        self.array_head(numbers.class_name, len(numbers.values))
        self.out += numbers.values.astype(numbers.values.dtype.newbyteorder(">")).tobytes()

    def map_head(self, count: int, name: str = LINKED_HASH_MAP) -> int:
        """Starts a map; the caller writes keys and values in turn, then ``map_end``."""
        handle = self.object_head(name)
        buckets = map_buckets(count)
        threshold = buckets * 3 // 4 if count else 0
        self.out += _MAP_HEAD.pack(LOAD_FACTOR, threshold, 0x77, 8, buckets, count)
        return handle

    def map_end(self, name: str = LINKED_HASH_MAP) -> None:
        self.out += b"\x78" if name == HASH_MAP else b"\x78\x00"

    def map_entries(self, entries: list[tuple[Any, Any]]) -> None:
        self.map_head(len(entries))
        for key, value in entries:
            self.value(key)
            self.value(value)
        self.map_end()

    def value(self, value: Any) -> None:
        """Writes null, a String, a box, an array of numbers, or a map of such values; anything else is a TypeError."""
        kind = type(value)
        box = _UNIQUE.get(kind)
        if box is not None:
            self.object_head(box[0])
            # Java writes one NaN only
            self.out += box[1].pack(math.nan if isinstance(value, float) and math.isnan(value) else value)
        elif value is None:
            self.null()
        elif kind in self._simple:
            self._simple[kind](value)
        else:
            raise TypeError(f"no Java representation of {kind.__name__}")


def dumps(value: Mapping[str, Any] | JMap) -> bytes:
    writer = Writer()
    writer.value(value if isinstance(value, JMap) else dict(value))
    return bytes(writer.out)
