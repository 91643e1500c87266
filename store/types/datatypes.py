"""The column types of a Deephaven schema, one row per type.

A row gives the spellings that a ``.schema`` file may use, the Java name in prefixes, the fixed width in a
``.dat`` file, the value that means null, and the Arrow type. Types whose ``stored`` flag is off are known to
the schema language, but this release has no codec for them.
"""

from __future__ import annotations

import pyarrow as pa

from sparkhaven.store.types.frozen import frozen

BYTE_NULL, SHORT_NULL, INT_NULL, LONG_NULL = -(2**7), -(2**15), -(2**31), -(2**63)
CHAR_NULL = 0xFFFF
BOOLEAN_NULL = -1
FLOAT_NULL = -3.4028234663852886e38  # the largest negative float32
DOUBLE_NULL = -1.7976931348623157e308  # the largest negative float64


@frozen
class DataType:
    """One logical type: ``numpy`` is the little-endian dtype of an entry, ``null`` its sentinel."""

    name: str
    java: str
    spellings: tuple[str, ...]
    arrow: pa.DataType
    numpy: str | None = None
    null: int | float | None = None
    groupable: bool = False
    stored: bool = False

    @property
    def width(self) -> int:
        """Bytes per row in ``.dat``; 0 where the storage of the column decides (strings, blobs)."""
        return int(self.numpy[-1]) if self.numpy else 0

    def __reduce__(self) -> tuple[object, ...]:
        return (data_type, (self.spellings[0],))


def _boxed(name: str, box: str) -> tuple[str, ...]:
    return (name, box, f"java.lang.{box}")


def _row(name: str, java: str, spellings: tuple[str, ...], arrow: pa.DataType, *entry: object) -> DataType:
    numpy, null = entry if entry else (None, None)
    return DataType(name, java, spellings, arrow, numpy, null, True, True)  # type: ignore[arg-type]


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
    DataType(
        "StringSet",
        "io.deephaven.stringset.StringSet",
        ("StringSet", "io.deephaven.stringset.StringSet", "com.illumon.iris.db.tables.libs.StringSet"),
        pa.list_(pa.string()),
    ),
    DataType("BigDecimal", "java.math.BigDecimal", ("BigDecimal", "java.math.BigDecimal"), pa.string()),
    DataType("BigInteger", "java.math.BigInteger", ("BigInteger", "java.math.BigInteger"), pa.string()),
    DataType("LocalDate", "java.time.LocalDate", ("LocalDate", "java.time.LocalDate"), pa.date32()),
    DataType("LocalTime", "java.time.LocalTime", ("LocalTime", "java.time.LocalTime"), pa.time64("ns")),
)
BY_NAME = {row.name: row for row in TYPES}
_BY_SPELLING = {spelling: row for row in TYPES for spelling in row.spellings}
_ARRAY_LETTERS = {"byte": "B", "char": "C", "short": "S", "int": "I", "long": "J", "float": "F", "double": "D"}


def data_type(spelling: str) -> DataType:
    """The type of a ``dataType`` attribute: a row of the table, an array of one, or an unknown class as blob."""
    row = _BY_SPELLING.get(spelling)
    if row is not None:
        return row
    if spelling.endswith("[]"):
        element = data_type(spelling[:-2])
        letter = _ARRAY_LETTERS.get(element.name)
        java = f"[{letter}" if letter else f"[L{element.java};"
        arrow = pa.binary() if element.name == "byte" else pa.list_(element.arrow)
        return DataType(f"{element.name}[]", java, (spelling,), arrow)
    return DataType(spelling, spelling, (spelling,), pa.binary())


def is_known(spelling: str) -> bool:
    """Whether a spelling is in the table, or an array over one that is (else it is kept as a blob)."""
    return spelling in _BY_SPELLING or (spelling.endswith("[]") and is_known(spelling[:-2]))
