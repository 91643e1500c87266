"""Rows for which a location has no room, of sets or in the forms of its files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import committed_column
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.store.types.widening import fitting, same_form
from sparkhaven.writers.append.set_room import Left, committed_texts, rows_without_room


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
