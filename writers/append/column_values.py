"""Values of one column, from decoded batches to the encoder."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.lazy_compute import FEW, pc
from sparkhaven.store.scan.column_file import nulls
from sparkhaven.store.types.model import Column, Storage


def column_values(column: Column, batches: Sequence[pa.RecordBatch], name: str | None = None) -> pa.Array:
    """The values of a column in all batches as one array in its type: of symbols, if they are not ``FEW``, a
    dictionary; others may be one.

    Null where a batch has no such column; ``name``: what batches call it, by default its own. SchemaMismatchError:
    another type, a bug of the decoder.
    """
    text = column.storage in (Storage.SYMBOL, Storage.BLOB)
    arrays = []
    for batch in batches:
        index = batch.schema.get_field_index(name or column.name)
        array = batch.column(index) if index >= 0 else nulls(column, batch.num_rows)
        value_type = array.type.value_type if text and pa.types.is_dictionary(array.type) else array.type
        if value_type != column.type.arrow and not (text and pa.types.is_large_string(value_type)):
            raise SchemaMismatchError(
                "decoded rows have another type than the table",
                where=f"column {column.name}",
                expected=f"{column.type.arrow} for {column.type.name}",
                found=array.type,
                hint="report it: this is a bug of the feed's decoder, not of the data",
            )
        arrays.append(array)
    if column.storage is Storage.SYMBOL:
        arrays = _without_texts(arrays)
    if len({array.type for array in arrays}) > 1:
        arrays = [array.cast(pa.large_string()) for array in arrays]
    values = pa.chunked_array(arrays)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    elif column.storage is Storage.SYMBOL and len(values) > FEW:
        # once, for symbol ids and statistics; texts are never put together
        values = pc.dictionary_encode(values)
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _without_texts(arrays: list[pa.Array]) -> list[pa.Array]:
    """Those that have no text, as their decoder may give them, in the type of one that has some."""
    full = next((array for array in arrays if array.null_count < len(array)), None)
    if full is None or not pa.types.is_dictionary(full.type):
        return arrays
    return [array if array.null_count < len(array) else nulls_like(full, len(array)) for array in arrays]


def nulls_like(array: pa.Array, count: int) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        indices = pa.nulls(count, array.type.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    return pa.nulls(count, array.type)
