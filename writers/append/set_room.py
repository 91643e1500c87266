"""Sets for which their location has no room: a text of theirs would be the 65th of a column.

Rows are taken in their order. A row that is left out takes no room, so the same rows after the same symbols are always
left out alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Storage, TableSchema

Left = dict[int, str]
"""Rows that are left out, and the column of each that has no room."""


def committed_texts(
    fs: Fs, schema: TableSchema, directory: Path, files: Mapping[str, FileState], named_by: int
) -> dict[str, frozenset[str]]:
    """The texts that a location with these committed files has, by column of sets.

    ``named_by``: the version of the schema by which the files are named.
    """
    texts = {}
    for column in schema.stored:
        if column.storage is Storage.SET:
            own, known = column.at(named_by).within(files), frozenset[str]()
            if own.files[0] in files:
                _, sym, data = (directory / name for name in own.files)
                ends, octets = (fs.map(path, files[path.name].size) for path in (sym, data))
                known = frozenset(decode_symbols(ends, octets, charset_of(own), "LITTLE_ENDIAN", sym).to_pylist())
            texts[column.name] = known
    return texts


def rows_without_room(batches: Sequence[pa.RecordBatch], texts: Mapping[str, Collection[str]]) -> Left:
    """Rows of batches that follow each other. ``texts``: those that the location has, by column of sets."""
    held = {name: set(known) for name, known in texts.items()}
    left: Left = {}
    start = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in held if name in batch.schema.names}
        if any(len(held[name] | _texts(array)) > MOST_SYMBOLS for name, array in columns.items()):
            for row in _rows_with_more(columns, held):
                sets = {name: set(array[row].as_py() or ()) for name, array in columns.items()}
                full = [name for name, members in sets.items() if len(held[name] | members) > MOST_SYMBOLS]
                if full:
                    left[start + row] = full[0]
                else:
                    for name, members in sets.items():
                        held[name] |= members
        else:
            for name, array in columns.items():
                held[name] |= _texts(array)
        start += batch.num_rows
    return left


def _texts(array: pa.Array) -> set[str]:
    return set(array.flatten().unique().to_pylist()) - {None}


def _rows_with_more(columns: Mapping[str, pa.Array], held: Mapping[str, set[str]]) -> list[int]:
    """Rows with a text that the location does not have yet, ascending."""
    more: set[int] = set()
    for name, array in columns.items():
        coded = array.flatten().dictionary_encode()
        new = np.array([text is not None and text not in held[name] for text in coded.dictionary.to_pylist()], np.bool_)
        lengths = np.where(np.asarray(array.is_null()), 0, np.diff(np.asarray(array.offsets, np.int64)))
        rows: npt.NDArray[np.int64] = np.repeat(np.arange(len(array)), lengths)
        codes = np.asarray(coded.indices.fill_null(0))
        more.update(rows[new[codes]].tolist() if len(codes) else ())
    return sorted(more)
