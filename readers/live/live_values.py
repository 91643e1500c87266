"""Columns with a codec as an engine has them: the field of a column, and its values.

=======================  ==================================================  =======================
column                   Arrow                                               in the engine
=======================  ==================================================  =======================
LocalDate, LocalTime     date32, time64[ns]                                  LocalDate, LocalTime
BigDecimal, BigInteger   decimals; without bounds binary: a BigDecimal's      BigDecimal, BigInteger
                         scale (little-endian, four bytes), then the number
                         as two's complement
byte[], boolean[], others binary                                             byte[]
Instant[]                lists of nanoseconds, since the engine reads no      long[]
                         lists of timestamps
arrays, sets of texts    lists                                               arrays; String[]
=======================  ==================================================  =======================

The names of Java's types stand in the metadata of a field, where the engine looks for them.

What an engine cannot take is refused when the table is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from sparkhaven.store.errors import SettingsError, UnsupportedVersionError
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.types.codings.decimals import encoded_number
from sparkhaven.store.types.model import Column, TableSchema

_WORDS = (
    "abstract|assert|boolean|break|byte|case|catch|char|class|const|continue|default|do|double|else|enum|extends|"
    "false|final|finally|float|for|goto|if|implements|import|instanceof|int|interface|long|native|new|null|"
    "package|private|protected|public|return|short|static|strictfp|super|switch|synchronized|this|throw|throws|"
    "transient|true|try|void|volatile|while|in|not|i|ii|k"
)
RESERVED = frozenset(_WORDS.split("|"))  # Java's, and those of Deephaven's query language


@dataclass(frozen=True, slots=True)
class ServedSchema:
    """Arrow schemas of the stored columns and of the partitioning column, and the stored columns themselves."""

    data: pa.Schema
    partition: pa.Schema
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def known_as(self, deployed: TableSchema) -> ServedSchema:
        """The same columns, with the names that their files have by a later version of the schema."""
        stems = {c.id: c.stems or ((1, c.name),) for c in (*deployed.columns, *deployed.retired)}
        later = tuple(replace(column, stems=stems.get(column.id, column.stems)) for column in self.columns)
        return ServedSchema(self.data, self.partition, later)


def served_schema(schema: TableSchema) -> ServedSchema:
    """UnsupportedVersionError: a column has a type that cannot be served. SettingsError: a name that engines refuse.

    SchemaMismatchError: two names differ in case only.
    """
    read = f"`sparkhaven read {schema.full_name}` reads the table"
    refuse_case_twins(schema.full_name, schema.columns, "clients of an engine", read)
    for column in schema.columns:
        if column.name in RESERVED:
            raise SettingsError(
                f"column {column.name} of {schema.full_name} cannot be served. Its name is reserved",
                expected="no word of Java or of Deephaven's query language",
                found=column.name,
                hint=f"name the other tables, or read this one: `sparkhaven read {schema.full_name}`",
            )
    data = pa.schema([live_field(column) for column in schema.stored])
    by = schema.partitioning
    partition = pa.schema([pa.field(by.name, pa.string())] if by else [])
    return ServedSchema(data, partition, schema.stored)


_TYPE, _COMPONENT = "deephaven:type", "deephaven:componentType"
_ELEMENTS = {
    pa.uint16(): "char",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "java.lang.String",
}
_FLAGS = pa.list_(pa.bool_())
_MOMENTS, _LONGS = pa.list_(pa.timestamp("ns", "UTC")), pa.list_(pa.int64())
_SCALE = 4  # bytes


def live_field(column: Column) -> pa.Field:
    """Name, Arrow type and Java type of a column. UnsupportedVersionError: engines have no type for it."""
    kind, kinds = column.type.arrow, pa.types
    if column.type.coding is None:
        return pa.field(column.name, kind)
    if kinds.is_map(kind):
        raise UnsupportedVersionError(
            f"column {column.name} has type {column.type.name}, for which an engine has no column",
            where=f"column {column.name}",
            expected="any type but a map",
            found=column.type.name,
            hint="`open_table` gives the column. Serve a table without it",
        )
    if kinds.is_string(kind):
        return _field(column.name, pa.binary(), column.type.java)
    if kinds.is_binary(kind) or kind == _FLAGS:
        return _field(column.name, pa.binary(), "byte[]", "byte")
    if kinds.is_list(kind):
        kind = _LONGS if kind == _MOMENTS else kind
        element = _ELEMENTS[kind.value_type]
        return _field(column.name, kind, f"{element}[]", element)
    return _field(column.name, kind, column.type.java)


def _field(name: str, kind: pa.DataType, java: str, component: str | None = None) -> pa.Field:
    return pa.field(name, kind, metadata={_TYPE: java} | ({_COMPONENT: component} if component else {}))


def live_values(array: pa.Array, column: Column, kind: pa.DataType) -> pa.Array:
    """Values of a column as readers have them in the type of its field."""
    if array.type == kind:
        return array
    if column.type.coding is not None and pa.types.is_string(array.type):
        whole = column.type.name == "BigInteger"
        numbers = [None if text is None else encoded_number(text, whole) for text in array.to_pylist()]
        return pa.array([None if data is None else _in_engine(data, whole) for data in numbers], kind)
    if array.type == _FLAGS:  # an engine reads no arrays of Booleans
        return pa.array([None if flags is None else bytes(flags) for flags in array.to_pylist()], kind)
    return array.cast(kind)


def _in_engine(number: bytes, whole: bool) -> bytes:
    """A number as its codec has it, in the engine's form."""
    return number[_SCALE:] if whole else number[:_SCALE][::-1] + number[_SCALE:]
