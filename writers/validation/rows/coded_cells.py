"""Cells of columns with a codec: each distinct value of a block is decoded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.codings.coding import entry_values
from sparkhaven.store.types.codings.string_set import decode_sets
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, repair_hint
from sparkhaven.writers.validation.rows.cells import Cells, Dictionary


def coded_cells(opened: ColumnSource, column: Column, first: int, stop: int) -> Cells:
    """Rows ``[first, stop)`` of a column with a codec. CorruptFileError: bytes stand for no value."""
    if column.storage is Storage.SET:
        words, codes = np.unique(opened.entries(first, stop), return_inverse=True)
        sets = decode_sets(words, opened.symbols(), _where(opened, column, first))
        return _cells(column, sets, codes)
    if column.type.fixed is not None:
        encoded = entry_values(opened.entries(first, stop), column.type.fixed)
    else:
        encoded = opened.blobs(first, stop)
    coded = encoded.dictionary_encode()
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
    values = _decoded(opened, column, coded.dictionary, codes, first)
    return _cells(column, pa.concat_arrays([values, pa.nulls(1, values.type)]), codes)  # the last one is null


def _cells(column: Column, values: pa.Array, codes: npt.NDArray[Any]) -> Cells:
    ids = codes.astype(np.int32)
    null = np.asarray(values.is_null())[ids] if values.null_count else np.zeros(len(ids), bool)
    return Cells(column, null, ids=ids, dictionary=Dictionary(values, column.type))


def _decoded(
    opened: ColumnSource, column: Column, encoded: pa.LargeBinaryArray, codes: npt.NDArray[Any], first: int
) -> pa.Array:
    """The values of distinct bytes."""
    _, offsets, data = encoded.buffers()
    ends = np.frombuffer(offsets, np.int64, len(encoded) + 1) if len(encoded) else np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8, int(ends[-1])) if data is not None else np.empty(0, np.uint8)
    coding = column.type.fixed or column.type.blob
    assert coding is not None  # noqa: S101
    if column.type.fixed is not None:
        values, bad = column.type.fixed.decode(octets.reshape(-1, column.type.fixed.width), None)
    else:
        values, bad = column.type.blob.decode(ends, pa.py_buffer(octets))  # type: ignore[union-attr]
    if bad is not None:
        value = int(np.argmax(bad))
        raise CorruptFileError(
            "bytes stand for no value of the column's codec",
            where=_where(opened, column, first + int(np.argmax(codes == value))),
            expected=coding.domain,
            found=encoded[value].as_py()[:40].hex(" "),
            hint=repair_hint(opened.source.stream),
        )
    return values


def _where(opened: ColumnSource, column: Column, row: int) -> str:
    return f"{opened.source.directory / column.files[0]}, row {row}"
