"""Columns as fields of a Parquet file, and back.

Every field is optional: null is by definition level, never by sentinel. The field id of Parquet is the number of the
column in the history of the schema, as in the prefix of a column file. Instants are INT64 TIMESTAMP in nanoseconds,
adjusted to UTC; a char is an unsigned INT(16); texts are STRING, those of a symbol table dictionaries in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import OtherColumnError, SchemaMismatchError
from sparkhaven.store.format.parquet.footer import KEY, Footer, encode_footer
from sparkhaven.store.types.model import Column, Storage

FIELD_ID = b"PARQUET:field_id"
TEXTS = pa.dictionary(pa.int32(), pa.string())


def field_of(column: Column) -> pa.Field:
    kind = TEXTS if column.storage is Storage.SYMBOL else column.type.arrow
    return pa.field(column.name, kind, metadata={FIELD_ID: str(column.id).encode()})


def file_schema(columns: Iterable[Column], footer: Footer) -> pa.Schema:
    """The schema of a file with these columns; its metadata become entries of the footer."""
    return pa.schema([field_of(column) for column in columns], {KEY: encode_footer(footer)})


def check_field(field: pa.Field, column: Column, where: object) -> None:
    """OtherColumnError: the field is another column's. SchemaMismatchError: it is of another type.

    An earlier form of the column is none.
    """
    number = (field.metadata or {}).get(FIELD_ID, b"")
    if number not in (b"", b"-1", str(column.id).encode()):
        raise OtherColumnError(
            f"field {column.name} says that it belongs to another column",
            where=where,
            expected=f"field id {column.id}",
            found=f"field id {number.decode(errors='replace')}",
            hint="the file is damaged or a copy of another one, or another schema wrote it. Restore the file, or the"
            " schema with its history",
        )
    if plain(field.type) not in (column.type.arrow, *(form.type.arrow for form in column.forms)):
        raise SchemaMismatchError(
            f"field {column.name} has another type than the column",
            where=where,
            expected=column.type.arrow,
            found=field.type,
            hint="another schema wrote the file. Restore that schema, or merge the date again with --rewrite",
        )


def field_names(schema: pa.Schema) -> dict[int, str]:
    """The names of the fields that say of which column they are, by its id."""
    ids = {field.name: (field.metadata or {}).get(FIELD_ID, b"-1").decode("ascii", "replace") for field in schema}
    return {int(number): name for name, number in ids.items() if number.isdecimal()}


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values: texts without a dictionary, all of one kind."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(value) or pa.types.is_string_view(value) else value


def as_column(values: pa.ChunkedArray, column: Column) -> pa.Array:
    """Values of a file as one array of the type in which the column is read."""
    kind = TEXTS if column.storage is Storage.SYMBOL else column.type.arrow
    if values.type != kind:
        if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(values.type):
            values = values.cast(pa.string()).dictionary_encode()
        values = values.cast(kind)
    if pa.types.is_dictionary(kind):
        values = values.unify_dictionaries()
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], kind)


def compacted(array: pa.Array) -> pa.Array:
    """Texts of a symbol table with a dictionary of only those that the rows have, in the order of the table."""
    ids = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.unique(ids)
    used = used[used >= 0]
    codes = np.searchsorted(used, ids).astype(np.int32)
    indices = pa.array(codes, mask=ids < 0)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(used))).cast(TEXTS)
