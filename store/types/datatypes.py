"""The column types of a Deephaven schema, one row per type.

A row gives the spellings that a ``.schema`` file may use, the Java name in prefixes, the fixed width in a
``.dat`` file, the value that means null, and the Arrow type. Where a codec makes bytes of the values, it names the
module that does so, and the type of a column depends on the codec's arguments: ``data_type`` takes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from sparkhaven.store.types.codings.coding import BlobCoding, FixedCoding
    from sparkhaven.store.types.codings.string_set import StringSets

BYTE_NULL, SHORT_NULL, INT_NULL, LONG_NULL = -(2**7), -(2**15), -(2**31), -(2**63)
CHAR_NULL = 0xFFFF
BOOLEAN_NULL = -1
FLOAT_NULL = -3.4028234663852886e38  # the largest negative float32
DOUBLE_NULL = -1.7976931348623157e308  # the largest negative float64
SERIALIZABLE = "SERIALIZABLE"  # in place of a codec's class: values are Java streams, whatever codec the type has here
_STREAMS = (SERIALIZABLE, "EXTERNALIZABLE")
_CODECS = "io.deephaven.util.codec."
_CODINGS = "sparkhaven.store.types.codings."


@dataclass(frozen=True, slots=True)
class Origin:
    """The arguments of ``data_type`` that give a type."""

    spelling: str
    codec: str | None = None
    arguments: str | None = None
    width: int | None = None
    opaque: bool = False
    null: int | None = None  # of a char, or in arrays of them, whose files have another one


@dataclass(frozen=True, slots=True)
class DataType:
    """One logical type, as a column has it.

    ``numpy`` is the little-endian dtype of an entry, ``null`` its sentinel. ``coding``: what makes bytes of values
    and null; None for plain numbers and texts.
    """

    name: str
    java: str
    spellings: tuple[str, ...]
    arrow: pa.DataType
    numpy: str | None = None
    null: int | float | None = None
    coding: FixedCoding | BlobCoding | StringSets | None = None
    origin: Origin | None = None  # what gave it, where there is a coding

    @property
    def width(self) -> int:
        """Bytes per row in ``.dat``; 0 where the storage of the column decides (strings, blobs)."""
        return int(self.numpy[2:]) if self.numpy else 0

    @property
    def fixed(self) -> FixedCoding | None:
        """The coding, where values have one width."""
        return self.coding if self.coding is not None and self.coding.form == "fixed" else None  # type: ignore[return-value]

    @property
    def blob(self) -> BlobCoding | None:
        """The coding, where values have any length."""
        return self.coding if self.coding is not None and self.coding.form == "blob" else None  # type: ignore[return-value]

    @property
    def groupable(self) -> bool:
        """Whether grouping metadata can have the values as keys: those of a codec have no form there."""
        return self.coding is None

    @property
    def ordered(self) -> bool:
        """Whether values have an order: those of every plain type, and of codecs those whose bytes are ordered."""
        return self.groupable or (self.fixed is not None and self.fixed.ordered)

    def __reduce__(self) -> tuple[object, ...]:
        return (_data_type_of, (self.origin or Origin(self.spellings[0]),))


@dataclass(frozen=True, slots=True)
class CodedRow:
    """A type whose values a codec makes bytes of: ``module`` has the codings, ``factory`` makes one of a codec.

    ``codec`` is what a schema of ours gets that names none; None where the values are Java streams without one.
    """

    name: str
    java: str
    spellings: tuple[str, ...]
    codec: str | None
    module: str
    factory: str = "coding"

    def coding(self, codec: str, arguments: str, width: int | None) -> FixedCoding | BlobCoding | StringSets:
        """What a codec makes of values; ValueError says what is expected instead."""
        factory = getattr(import_module(_CODINGS + self.module), self.factory)
        coding: FixedCoding | BlobCoding | StringSets = factory(codec, arguments, width)
        return coding


def _boxed(name: str, box: str) -> tuple[str, ...]:
    return (name, box, f"java.lang.{box}")


def _row(name: str, java: str, spellings: tuple[str, ...], arrow: pa.DataType, *entry: object) -> DataType:
    numpy, null = entry if entry else (None, None)
    return DataType(name, java, spellings, arrow, numpy, null)  # type: ignore[arg-type]


def _coded(java: str, codec: str | None, module: str, factory: str = "coding") -> CodedRow:
    name = java.rpartition(".")[2]
    return CodedRow(name, java, (name, java), None if codec is None else _CODECS + codec, module, factory)


_INSTANT = ("Instant", "java.time.Instant", "DateTime", "com.illumon.iris.db.tables.utils.DBDateTime")
TYPES: tuple[DataType, ...] = (
    _row("Boolean", "java.lang.Boolean", ("Boolean", "boolean", "java.lang.Boolean"), pa.bool_(), "|i1", -1),
    _row("byte", "byte", _boxed("byte", "Byte"), pa.int8(), "|i1", BYTE_NULL),
    _row("char", "char", ("char", "Character", "java.lang.Character"), pa.uint16(), "<u2", CHAR_NULL),
    _row("short", "short", _boxed("short", "Short"), pa.int16(), "<i2", SHORT_NULL),
    _row("int", "int", _boxed("int", "Integer"), pa.int32(), "<i4", INT_NULL),
    _row("long", "long", _boxed("long", "Long"), pa.int64(), "<i8", LONG_NULL),
    _row("float", "float", _boxed("float", "Float"), pa.float32(), "<f4", FLOAT_NULL),
    _row("double", "double", _boxed("double", "Double"), pa.float64(), "<f8", DOUBLE_NULL),
    _row("Instant", "java.time.Instant", _INSTANT, pa.timestamp("ns", "UTC"), "<i8", LONG_NULL),
    _row("String", "java.lang.String", ("String", "java.lang.String"), pa.string()),
)
_STRING_SET = ("StringSet", "io.deephaven.stringset.StringSet", "com.illumon.iris.db.tables.libs.StringSet")
CODED: tuple[CodedRow, ...] = (
    CodedRow("StringSet", "io.deephaven.stringset.StringSet", _STRING_SET, None, "string_set"),
    _coded("java.time.LocalDate", "LocalDateCodec", "local_date"),
    _coded("java.time.LocalTime", "LocalTimeCodec", "local_time"),
    _coded("java.math.BigDecimal", "BigDecimalCodec", "decimals", "decimal_coding"),
    _coded("java.math.BigInteger", "BigIntegerCodec", "decimals", "integer_coding"),
    _coded("java.util.Map", "StringDoubleMapCodec", "string_map"),
    CodedRow("byte[]", "[B", ("byte[]",), None, "java_array", "bytes_coding"),
    *(
        CodedRow(f"{name}[]", f"[{letter}", (f"{name}[]",), None, "java_array", f"{name.lower()}_arrays")
        for name, letter in zip(("boolean", "char", "short", "int", "long", "float", "double"), "ZCSIJFD", strict=True)
    ),
    CodedRow("String[]", "[Ljava.lang.String;", ("String[]", "java.lang.String[]"), None, "string_array"),
    CodedRow("Instant[]", "[Ljava.time.Instant;", ("Instant[]", "java.time.Instant[]"), None, "instant_array"),
    CodedRow(
        "RowSet",
        "io.deephaven.engine.rowset.RowSet",
        ("RowSet", "io.deephaven.engine.rowset.RowSet"),
        "io.deephaven.engine.table.impl.dataindex.RowSetCodec",
        "row_set",
    ),
)
BY_NAME = {row.name: row for row in TYPES}
NAMES = (*BY_NAME, *(row.name for row in CODED))
SPELLINGS = (*(s for row in TYPES for s in row.spellings), *(s for row in CODED for s in row.spellings))
_BY_SPELLING = {spelling: row for row in TYPES for spelling in row.spellings}
_OPAQUE = ("byte_array", "opaque")  # module and factory
_CODED_BY_SPELLING = {spelling: row for row in CODED for spelling in row.spellings}


def coded_row(spelling: str) -> CodedRow | None:
    """The row of a type with a codec: of an unknown class, one of opaque bytes; None for a type without one."""
    if spelling in _BY_SPELLING:
        return None
    java = f"[L{data_type(spelling[:-2]).java};" if spelling.endswith("[]") else spelling
    unknown = CodedRow(spelling, java, (spelling,), None, *_OPAQUE)
    return _CODED_BY_SPELLING.get(spelling, unknown)


def data_type(
    spelling: str,
    codec: str | None = None,
    arguments: str | None = None,
    width: int | None = None,
    *,
    opaque: bool = False,
) -> DataType:
    """The type of a ``dataType`` attribute with a codec: a row of the tables, or an unknown class as opaque bytes.

    ``codec`` None: that of the row. ``opaque``: bytes of an unknown codec, which nobody looks into.
    ValueError: the codec is not one of the type, or has other arguments; it says what is expected.
    """
    row = _BY_SPELLING.get(spelling)
    if row is not None:
        return row
    coded = coded_row(spelling)
    assert coded is not None  # noqa: S101
    forced = (codec or "").upper()
    array = forced == SERIALIZABLE and coded.codec is None and coded.name.endswith("[]")  # streams that are decoded
    if opaque or (forced in _STREAMS and not array):
        coded = CodedRow(coded.name, coded.java, coded.spellings, None, *_OPAQUE)
    codec = coded.codec if codec is None else codec
    coding = coded.coding("" if array else (codec or "").rpartition(".")[2], arguments or "", width)
    fixed = coding.width if coding.form == "fixed" else None
    return DataType(
        coded.name,
        coded.java,
        coded.spellings,
        coding.arrow,
        f"|S{fixed}" if fixed else None,
        None,
        coding,
        Origin(spelling, codec, arguments, width, opaque),
    )


def _data_type_of(origin: Origin) -> DataType:
    kind = data_type(origin.spelling, origin.codec, origin.arguments, origin.width, opaque=origin.opaque)
    return kind if origin.null is None else with_null(kind, origin.null)


def with_null(kind: DataType, null: int) -> DataType:
    """The type, or the array type, of files in which another value is null."""
    origin = replace(kind.origin or Origin(kind.spellings[0]), null=null)
    if kind.coding is None:
        return replace(kind, null=null, origin=origin)
    return replace(kind, coding=replace(kind.coding, other_null=null), origin=origin)  # type: ignore[type-var]


def is_known(spelling: str) -> bool:
    """Whether a spelling is in the tables (else its values are kept as opaque bytes)."""
    return spelling in SPELLINGS
