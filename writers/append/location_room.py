"""Rows for which a location has no room: sets whose text would be the 65th of a column, values its files cannot hold.

Rows are taken in their order. A row that is left out takes no room, so the same rows after the same symbols are always
left out alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import committed_column
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema, fitting, same_form

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


@dataclass(frozen=True, slots=True)
class LocationRoom:
    """What a location can take: ``texts`` that it has, by column of sets, and the earlier ``forms`` that it has of
    widened columns, both by the name in the schema."""

    texts: Mapping[str, Collection[str]]
    forms: Mapping[str, Column]

    def left_out(self, batches: Sequence[pa.RecordBatch]) -> Left:
        """Rows of batches that follow each other for which there is no room, and the column that has none."""
        left: Left = {}
        start = 0
        for batch in batches if self.forms else ():
            for name, form in self.forms.items():
                if name in batch.schema.names:
                    wide = np.flatnonzero(~fitting(batch.column(name), form))
                    left |= dict.fromkeys((start + wide).tolist(), name)
            start += batch.num_rows
        if not self.texts:
            return left
        if not left:
            return rows_without_room(batches, self.texts)
        kept = np.delete(np.arange(start), sorted(left))
        rest = pa.Table.from_batches(batches).take(pa.array(kept)).to_batches()
        return left | {int(kept[row]): name for row, name in rows_without_room(rest, self.texts).items()}


def may_lack_room(schema: TableSchema) -> bool:
    """Whether the table has columns of sets or widened ones, of which a location may have no room for a row."""
    return any(column.storage is Storage.SET or column.forms for column in schema.stored)


def committed_form(fs: Fs, directory: Path, column: Column, files: Collection[str]) -> Column:
    """A column, under its name there, as the files of a location have it; itself where they do not have it."""
    named = column.within(files)
    if not named.forms or named.files[0] not in files:
        return named
    return committed_column(fs, directory / named.files[0], named).column


def committed_room(
    fs: Fs, schema: TableSchema, directory: Path, files: Mapping[str, FileState], named_by: int
) -> LocationRoom:
    """The room in a location with these committed files, which are named by a version of the schema."""
    named = {column.name: column.at(named_by) for column in schema.stored if column.forms}
    own = {name: committed_form(fs, directory, column, files) for name, column in named.items()}
    return LocationRoom(committed_texts(fs, schema, directory, files, named_by), earlier_forms(schema, own))


def earlier_forms(schema: TableSchema, own: Mapping[str, Column]) -> dict[str, Column]:
    """Those of the columns of a location, by their name in the schema, that are in a form from before a widening."""
    widened = [column for column in schema.stored if column.forms]
    return {column.name: own[column.name] for column in widened if not same_form(column, own[column.name])}
