"""Reads the subset of Java's object streams that our files use, as plain data.

No class is loaded and nothing is made by name: a class that is not among those allowed is an
UnsupportedVersionError with its name, anything that the grammar does not allow a CorruptFileError with the byte.
Depth, lengths and handles are checked before they are used, so hostile bytes cost no more than their length.

A position in a Java object stream: numbers, texts and bytes, with errors that name the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any

import numpy as np

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.format.java.java_values import (
    ALL_CLASSES,
    HASH_MAP,
    LINKED_HASH_MAP,
    RESET,
    STREAM_CLASSES,
    Descriptor,
    Field,
    JArray,
    JavaClass,
    JByte,
    JChar,
    JClass,
    JDouble,
    JFloat,
    JInt,
    JLong,
    JMap,
    JNumbers,
    JObject,
    JShort,
    OpaqueBytes,
)
from sparkhaven.store.format.java.object_writer import FIRST_HANDLE, STREAM_HEADER
from sparkhaven.store.types.codings import modified_utf8

FOREIGN = "read the file with the program that wrote it, or with a newer release than sparkhaven --version says"
U2 = Struct(">H")


class StreamCursor:
    """Reads elements of ``data`` one after the other from ``pos``; ``where`` names the file in errors."""

    def __init__(self, data: bytes, where: object) -> None:
        self.data, self.where, self.pos = data, where, 0

    def fail(self, fault: str, offset: int, *, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(fault, where=f"{self.where}, byte {offset}", expected=expected, found=found)

    def _cut(self, offset: int, needed: int) -> CorruptFileError:
        return self.fail(
            "Java stream ends inside an element",
            offset,
            expected=f"{needed} more bytes" if needed >= 0 else "a non-negative length",
            found=f"{max(0, len(self.data) - offset)} bytes left",
        )

    def _unknown(self, name: str, offset: int) -> UnsupportedVersionError:
        return UnsupportedVersionError(
            f"Java class {name!r} is not allowed in this file",
            where=f"{self.where}, byte {offset}",
            expected="a class of the format reference",
            found=name,
            hint=FOREIGN,
        )

    def _bytes(self, count: int) -> bytes:
        start = self.pos
        if count < 0 or count > len(self.data) - start:
            raise self._cut(start, count)
        self.pos = start + count
        return self.data[start : self.pos]

    def _number(self, layout: Struct) -> Any:
        try:
            value = layout.unpack_from(self.data, self.pos)[0]
        except StructError:
            raise self._cut(self.pos, layout.size) from None
        self.pos += layout.size
        return value

    def _tag(self) -> int:
        if self.pos >= len(self.data):
            raise self._cut(self.pos, 1)
        self.pos += 1
        return self.data[self.pos - 1]

    def _text(self, count: int) -> str:
        start = self.pos
        data = self._bytes(count)
        try:
            return modified_utf8.decode(data)
        except ValueError as error:
            raise self.fail("text is not modified UTF-8", start, expected="modified UTF-8", found=str(error)) from None

    def _utf(self) -> str:
        return self._text(self._number(U2))


MAX_DEPTH = 64

_I4, _I8 = Struct(">i"), Struct(">q")
_SUID = Struct(">QBH")
_PRIMITIVES = {
    "Z": Struct(">?"),
    "B": Struct(">b"),
    "C": U2,
    "S": Struct(">h"),
    "I": _I4,
    "J": _I8,
    "F": Struct(">f"),
    "D": Struct(">d"),
}
_BOXES: dict[str, tuple[Struct, Callable[[Any], Any]]] = {
    "java.lang.Boolean": (_PRIMITIVES["Z"], bool),
    "java.lang.Character": (_PRIMITIVES["C"], JChar),
    "java.lang.Byte": (_PRIMITIVES["B"], JByte),
    "java.lang.Short": (_PRIMITIVES["S"], JShort),
    "java.lang.Integer": (_PRIMITIVES["I"], JInt),
    "java.lang.Long": (_PRIMITIVES["J"], JLong),
    "java.lang.Float": (_PRIMITIVES["F"], JFloat),
    "java.lang.Double": (_PRIMITIVES["D"], JDouble),
}
_ELEMENTS = {"[Z": "?", "[B": ">i1", "[C": ">u2", "[S": ">i2", "[I": ">i4", "[J": ">i8", "[F": ">f4", "[D": ">f8"}


_UNFINISHED = object()  # in the place of a value that is still being read


class Reader(StreamCursor):
    """A position in a stream. ``allowed`` are the classes whose objects and arrays may occur."""

    def __init__(
        self,
        data: bytes,
        where: object,
        *,
        allowed: Mapping[str, JavaClass] = STREAM_CLASSES,
        accepts: Callable[[Descriptor], bool] = lambda descriptor: False,
    ) -> None:
        super().__init__(data, where)
        self._allowed = allowed
        self._accepts = accepts
        self._handles: list[Any] = []
        self._depth = 0
        self._readers: dict[int, Callable[[], Any]] = {
            0x70: lambda: None,
            0x71: self._reference,
            0x73: self._object,
            0x74: lambda: self._kept(self._utf()),
            0x75: self._array,
            0x76: lambda: self._kept(JClass(self._descriptor())),
            0x7C: lambda: self._kept(self._text(self._number(_I8))),
        }

    def _slot(self) -> int:
        """The handle of a value that is still being read."""
        self._handles.append(_UNFINISHED)
        return len(self._handles) - 1

    def _kept(self, value: Any) -> Any:
        self._handles.append(value)
        return value

    def _deeper(self, offset: int) -> None:
        if self._depth >= MAX_DEPTH:
            raise self.fail(
                "values are nested too deeply", offset, expected=f"at most {MAX_DEPTH} levels", found="one more"
            )
        self._depth += 1

    def header(self) -> None:
        if self.data[:4] != STREAM_HEADER:
            head = self.data[:4].hex(" ") or "an empty file"
            raise self.fail("file does not start with a Java stream header", 0, expected="ac ed 00 05", found=head)
        self.pos = 4

    def value(self) -> Any:
        """Takes one object, string, array, class, reference or null."""
        offset = self.pos
        tag = self._tag()
        read = self._readers.get(tag)
        if read is None:
            raise self.fail("unexpected type tag", offset, expected="a value", found=f"tag {tag:02X}")
        self._deeper(offset)
        value = read()
        self._depth -= 1
        return value

    def items(self) -> list[Any]:
        """Takes everything to the end of the data: values, blocks and RESET marks."""
        items: list[Any] = []
        while self.pos < len(self.data):
            if self.data[self.pos] == 0x79:
                self.pos += 1
                self._handles.clear()
                items.append(RESET)
            else:
                items.append(self._item())
        return items

    def _item(self) -> Any:
        tag = self.data[self.pos] if self.pos < len(self.data) else self._tag()
        if tag not in (0x77, 0x7A):
            return self.value()
        self.pos += 1
        length = self._tag() if tag == 0x77 else self._number(_I4)
        start = self.pos
        return OpaqueBytes(self._bytes(length), start)

    def _reference(self) -> Any:
        offset = self.pos
        index = self._number(_I4) - FIRST_HANDLE
        if not 0 <= index < len(self._handles):
            known = f"one of {len(self._handles)} handles from {FIRST_HANDLE:X} on"
            raise self.fail(
                "reference to a handle that does not exist",
                offset,
                expected=known,
                found=f"handle {index + FIRST_HANDLE:X}",
            )
        value = self._handles[index]
        if value is _UNFINISHED:
            handle = f"handle {index + FIRST_HANDLE:X}"
            raise self.fail("value refers to an enclosing value", offset, expected="a value before it", found=handle)
        return value

    def _descriptor(self) -> Descriptor:
        descriptor = self._descriptor_or_null()
        if descriptor is None:
            raise self.fail("class descriptor is null", self.pos - 1, expected="71 or 72", found="70")
        return descriptor

    def _descriptor_or_null(self) -> Descriptor | None:
        offset = self.pos
        tag = self._tag()
        if tag == 0x70:
            return None
        if tag == 0x71:
            referenced = self._reference()
            if type(referenced) is not Descriptor:
                kind = type(referenced).__name__
                raise self.fail("reference is not to a class descriptor", offset, expected="a descriptor", found=kind)
            return referenced
        if tag != 0x72:
            raise self.fail(
                "byte does not start a class descriptor", offset, expected="70, 71 or 72", found=f"{tag:02X}"
            )
        self._deeper(offset)
        name = self._utf()
        slot = self._slot()
        try:
            suid, flags, count = _SUID.unpack_from(self.data, self.pos)
        except StructError:
            raise self._cut(self.pos, _SUID.size) from None
        self.pos += _SUID.size
        fields = tuple(self._field() for _ in range(count))
        if (end := self._tag()) != 0x78:
            raise self.fail("class descriptor has annotations", self.pos - 1, expected="78", found=f"{end:02X}")
        descriptor = Descriptor(name, suid, flags, fields, self._descriptor_or_null())
        if len(descriptor.lineage) > MAX_DEPTH:
            most = f"at most {MAX_DEPTH}"
            raise self.fail("class has too many superclasses", offset, expected=most, found=len(descriptor.lineage))
        self._check(descriptor, offset)
        self._handles[slot] = descriptor
        self._depth -= 1
        return descriptor

    def _field(self) -> Field:
        offset = self.pos
        letter = chr(self._tag())
        name = self._utf()
        if letter in _PRIMITIVES:
            return (letter, name)
        if letter not in "[L":
            raise self.fail(
                "field has an unknown type letter", offset, expected="one of BCDFIJSZL[", found=repr(letter)
            )
        signature = self.value()
        if type(signature) is not str:
            raise self.fail(
                "field signature is not a string", offset, expected="a string", found=type(signature).__name__
            )
        return (letter, name, signature)

    def _check(self, descriptor: Descriptor, offset: int) -> None:
        """A class that we know by name must be declared as we know it; ``int`` and the like have no number."""
        row = ALL_CLASSES.get(descriptor.name)
        if row is None or row.suid == 0:
            return
        if descriptor.suid != row.suid:
            raise self.fail(
                f"class {descriptor.name} has an unexpected serialVersionUID",
                offset,
                expected=f"{row.suid:016X}",
                found=f"{descriptor.suid:016X}",
            )
        parent = descriptor.parent.name if descriptor.parent else None
        same_fields = sorted(f[:2] for f in descriptor.fields) == sorted(f[:2] for f in row.fields)
        if descriptor.flags != row.flags or not same_fields or parent != row.parent:
            raise self.fail(
                f"class {descriptor.name} is declared with other fields",
                offset,
                expected=_declared(row.flags, row.fields, row.parent),
                found=_declared(descriptor.flags, descriptor.fields, parent),
            )

    def _object(self) -> Any:
        offset = self.pos - 1
        descriptor = self._descriptor()
        name = descriptor.name
        box = _BOXES.get(name)
        if box is not None and name in self._allowed:
            return self._kept(box[1](self._number(box[0])))
        slot = self._slot()
        fields: dict[str, Any] = {}
        content: list[Any] = []
        for level in descriptor.lineage:
            if level.name not in self._allowed and not self._accepts(level):
                raise self._unknown(level.name, offset)
            if level.flags not in (0x02, 0x03, 0x0C):
                flags = f"{level.flags:02X}"
                raise self.fail(
                    f"class {level.name} has invalid class flags", offset, expected="02, 03 or 0C", found=flags
                )
        # an Externalizable class writes everything itself, its superclasses write nothing
        for level in (descriptor,) if descriptor.flags & 0x04 else descriptor.lineage:
            for letter, field_name, *_ in level.fields if level.flags & 0x02 else ():
                layout = _PRIMITIVES.get(letter)
                fields[field_name] = self._number(layout) if layout else self.value()
            if level.flags != 0x02:
                self._content(content)
        value = self._map(name, content, offset) if name in (HASH_MAP, LINKED_HASH_MAP) else None
        instance = JObject(descriptor, fields, content) if value is None else value
        self._handles[slot] = instance
        return instance

    def _content(self, content: list[Any]) -> None:
        while True:
            if self.pos < len(self.data) and self.data[self.pos] == 0x78:
                self.pos += 1
                return
            content.append(self._item())

    def _map(self, name: str, content: list[Any], offset: int) -> JMap:
        head = content[0] if content else None
        if type(head) is not OpaqueBytes or len(head.data) != 8:
            length = f"{len(head.data)} bytes" if type(head) is OpaqueBytes else "no block"
            raise self.fail("map header is not 8 bytes long", offset, expected="8 bytes", found=length)
        count = _I4.unpack_from(head.data, 4)[0]
        values = content[1:]
        if len(values) != 2 * count or any(type(value) is OpaqueBytes for value in values):
            raise self.fail(
                "number of map entries differs from the map header", offset, expected=count, found=len(values) / 2
            )
        return JMap(list(zip(values[::2], values[1::2], strict=True)), name)

    def _array(self) -> JArray | JNumbers:
        offset = self.pos - 1
        descriptor = self._descriptor()
        name = descriptor.name
        if not name.startswith("[") or (name not in self._allowed and not self._accepts(descriptor)):
            raise self._unknown(name, offset)
        slot = self._slot()
        length = self._number(_I4)
        element = _ELEMENTS.get(name)
        array: JArray | JNumbers
        if element is not None:
            dtype = np.dtype(element)
            data = self._bytes(length * dtype.itemsize)
            array = JNumbers(name, np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")))
        else:
            if length < 0 or length > len(self.data) - self.pos:
                raise self._cut(self.pos, length)
            array = JArray(name, [self.value() for _ in range(length)])
        self._handles[slot] = array
        return array


def _declared(flags: int, fields: Sequence[Field], parent: str | None) -> str:
    names = ", ".join(sorted(name for _, name, *_ in fields)) or "no fields"
    return f"flags {flags:02X}, {names}, superclass {parent or 'none'}"


def loads(data: bytes, where: object) -> Any:
    """The one value of a stream that starts with its header and ends with that value.

    Bytes after it are a CorruptFileError.
    """
    reader = Reader(data, where)
    reader.header()
    value = reader.value()
    if reader.pos != len(data):
        raise reader.fail(
            "bytes after the end of the Java stream", reader.pos, expected=f"{reader.pos} bytes", found=f"{len(data)}"
        )
    return value


__all__ = ["FOREIGN", "Reader", "loads"]
