"""Values of a Java stream as plain data: what the reader gives and the writer takes.

``None`` is null, ``str`` a String, ``bool`` a Boolean. Other boxes are small subclasses of ``int`` and
``float``, so that an Integer is not taken for a Long. Maps keep their entries as pairs, in order, because Java
keys that differ (``0.0`` and ``-0.0``, an Integer and a Long) may be equal in Python.

The Java classes that may occur in our files: names, serial numbers, flags and fields, as data.

``STREAM_CLASSES`` occur in prefixes, grouping maps and ``table.size``, the others in a ``.tbl`` only. A reader
compares what a file declares with these rows; a writer prints them. Nothing is ever loaded by name.
Flags: 01 own write method, 02 Serializable, 04 Externalizable, 08 block data. A field is its type letter, its
name and, for ``L`` and ``[``, its signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Field = tuple[str, ...]  # (letter, name) or (letter, name, signature)

NUMBER = "java.lang.Number"
HASH_MAP = "java.util.HashMap"
LINKED_HASH_MAP = "java.util.LinkedHashMap"
LONGS, INTS = "[J", "[I"

COLUMN_SET = "io.deephaven.dataobjects.DataObjectColumnSet"
DATA_COLUMN = "io.deephaven.dataobjects.DataObjectColumn"
TABLE_DEFINITION = "io.deephaven.db.tables.TableDefinition"
COLUMN_DEFINITION = "io.deephaven.db.tables.ColumnDefinition"
DEFAULT_COLUMN_DEFINITION = "io.deephaven.db.tables.DefaultColumnDefinition"
DB_DATE_TIME = "io.deephaven.db.tables.utils.DBDateTime"
STRING_SET = "io.deephaven.db.tables.libs.StringSet"

_STRING_SIGNATURE = "Ljava/lang/String;"
_CLASS_SIGNATURE = "Ljava/lang/Class;"
_COLUMNS_SIGNATURE = "[Lio/deephaven/dataobjects/DataObjectColumn;"


@dataclass(frozen=True, slots=True)
class JavaClass:
    """One class as it is declared in a stream; ``parent`` is the name of its superclass, if that is serializable."""

    name: str
    suid: int
    flags: int
    fields: tuple[Field, ...] = ()
    parent: str | None = None


def _box(name: str, suid: int, letter: str, parent: str | None = NUMBER) -> JavaClass:
    return JavaClass(f"java.lang.{name}", suid, 2, ((letter, "value"),), parent)


def _table(*rows: JavaClass) -> dict[str, JavaClass]:
    return {row.name: row for row in rows}


STREAM_CLASSES = _table(
    JavaClass(LINKED_HASH_MAP, 0x34C04E5C106CC0FB, 2, (("Z", "accessOrder"),), HASH_MAP),
    JavaClass(HASH_MAP, 0x0507DAC1C31660D1, 3, (("F", "loadFactor"), ("I", "threshold"))),
    _box("Boolean", 0xCD207280D59CFAEE, "Z", None),
    _box("Character", 0x348B47D96B1A2678, "C", None),
    _box("Byte", 0x9C4E6084EE50F51C, "B"),
    _box("Short", 0x684D37133460DA52, "S"),
    _box("Integer", 0x12E2A0A4F7818738, "I"),
    _box("Long", 0x3B8BE490CC8F23DF, "J"),
    _box("Float", 0xDAEDC9A2DB3CF0EC, "F"),
    _box("Double", 0x80B3C24A296BFB04, "D"),
    JavaClass(NUMBER, 0x86AC951D0B94E08B, 2),
    JavaClass(LONGS, 0x782004B512B17593, 2),
    JavaClass(INTS, 0x4DBA602676EAB2A5, 2),
)

DEFINITION_CLASSES = _table(
    JavaClass(f"[L{COLUMN_SET};", 0xE059882C782B33A7, 2),
    JavaClass(
        COLUMN_SET,
        0x000027959E7BCB97,
        2,
        (
            ("[", "columns_", _COLUMNS_SIGNATURE),
            ("[", "indexColumns_", _COLUMNS_SIGNATURE),
            ("[", "keys_", _COLUMNS_SIGNATURE),
            ("L", "nameToColumn_", "Ljava/util/HashMap;"),
            ("L", "name_", _STRING_SIGNATURE),
        ),
    ),
    JavaClass(f"[L{DATA_COLUMN};", 0xE9271368784BF43B, 2),
    JavaClass(
        DATA_COLUMN,
        0x000002FCCF62E32F,
        2,
        (
            ("I", "index_"),
            ("Z", "isKey_"),
            ("Z", "serializeAsObject_"),
            ("Z", "shouldBeSerialized_"),
            ("L", "abbreviation_", _STRING_SIGNATURE),
            ("L", "codecName", _STRING_SIGNATURE),
            ("L", "javaType_", _CLASS_SIGNATURE),
            ("L", "label_", _STRING_SIGNATURE),
            ("L", "name_", _STRING_SIGNATURE),
            ("L", "type_", _CLASS_SIGNATURE),
        ),
    ),
    JavaClass(f"[L{COLUMN_DEFINITION};", 0xF4EBBA4E85C18699, 2),
    JavaClass(COLUMN_DEFINITION, 0x32BE576E0E61842A, 0x0C, (), DEFAULT_COLUMN_DEFINITION),
    JavaClass(DEFAULT_COLUMN_DEFINITION, 0x4EE3070A68292BB6, 0x0C),
)

_BIG_INTEGER_FIELDS: tuple[Field, ...] = (
    *(("I", name) for name in ("bitCount", "bitLength", "firstNonzeroByteNum", "lowestSetBit", "signum")),
    ("[", "magnitude", "[B"),
)
_TIME_FIELDS: tuple[Field, ...] = (("B", "hour"), ("B", "minute"), ("I", "nano"), ("B", "second"))
DATA_TYPE_CLASSES = _table(
    *(JavaClass(name, 0, 0) for name in ("byte", "char", "short", "int", "long", "float", "double", "boolean")),
    JavaClass("java.lang.Object", 0, 0),
    JavaClass("java.lang.String", 0xA0F0A4387A3BB342, 2),
    JavaClass(DB_DATE_TIME, 0x82047EA1C3C8D7A7, 0x0C),
    JavaClass(
        "java.math.BigDecimal",
        0x54C71557F981284F,
        3,
        (("I", "scale"), ("L", "intVal", "Ljava/math/BigInteger;")),
        NUMBER,
    ),
    JavaClass("java.math.BigInteger", 0x8CFC9F1FA93BFB1D, 3, _BIG_INTEGER_FIELDS, NUMBER),
    JavaClass("java.time.LocalDate", 0x28D617B1D8F33F1E, 2, (("S", "day"), ("S", "month"), ("I", "year"))),
    JavaClass("java.time.LocalTime", 0x5904A8B626E1A4F1, 2, _TIME_FIELDS),
    JavaClass("[B", 0xACF317F8060854E0, 2),
    JavaClass("[S", 0xEF832E06E55DB0FA, 2),
    JavaClass("[F", 0x0B9C818922E00C42, 2),
    JavaClass("[D", 0x3EA68C14AB635A1E, 2),
    JavaClass("[C", 0xB02666B0E25D84AC, 2),
    JavaClass("[Ljava.lang.String;", 0xADD256E7E91D7B47, 2),
    JavaClass(STRING_SET, 0, 0),
    JavaClass("io.deephaven.engine.rowset.RowSet", 0, 0),
)
ALL_CLASSES = {**STREAM_CLASSES, **DEFINITION_CLASSES, **DATA_TYPE_CLASSES}


def java_class(name: str) -> JavaClass:
    """The row of a class; one that is not listed has serial number 0, no flags and no fields."""
    return ALL_CLASSES.get(name) or JavaClass(name, 0, 0)


class JByte(int):
    __slots__ = ()


class JChar(int):
    """A ``java.lang.Character`` as its UTF-16 code unit."""

    __slots__ = ()


class JShort(int):
    __slots__ = ()


class JInt(int):
    __slots__ = ()


class JLong(int):
    __slots__ = ()


class JFloat(float):
    __slots__ = ()


class JDouble(float):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A class as one stream declares it; ``parent`` is the descriptor of its superclass."""

    name: str
    suid: int
    flags: int
    fields: tuple[Field, ...]
    parent: Descriptor | None

    @property
    def lineage(self) -> tuple[Descriptor, ...]:
        """This class and its superclasses, the topmost first."""
        classes: list[Descriptor] = []
        level: Descriptor | None = self
        while level is not None:
            classes.append(level)
            level = level.parent
        return tuple(reversed(classes))


@dataclass(frozen=True, slots=True)
class JClass:
    """A class token: the descriptor stands for the class itself."""

    descriptor: Descriptor

    @property
    def name(self) -> str:
        return self.descriptor.name


@dataclass(frozen=True, slots=True)
class JMap:
    entries: list[tuple[Any, Any]]
    class_name: str = LINKED_HASH_MAP

    def named(self) -> dict[str, Any] | None:
        """The entries by name; None if a key is no String or comes twice."""
        if not all(type(key) is str for key, _ in self.entries):
            return None
        entries = dict(self.entries)
        return entries if len(entries) == len(self.entries) else None


@dataclass(frozen=True, slots=True)
class JArray:
    """An array of objects; arrays of primitives are ``JNumbers``."""

    class_name: str
    items: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class JNumbers:
    """An array of primitives, as numpy values in native byte order."""

    class_name: str
    values: npt.NDArray[Any]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, JNumbers) and self.class_name == other.class_name
        return same and np.array_equal(self.values, other.values)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class OpaqueBytes:
    """Bytes that a class wrote itself; ``offset`` is their position in the file."""

    data: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class JObject:
    """An object of another class: its fields by name, and what its own write method added."""

    descriptor: Descriptor
    fields: dict[str, Any]
    content: list[Any] = field(default_factory=list)

    @property
    def class_name(self) -> str:
        return self.descriptor.name


class Reset:
    """The mark after which handles start again."""


RESET = Reset()
