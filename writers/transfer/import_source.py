"""What an import makes history of: rows that a tree has, or that a data frame gave, by date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sparkhaven.store.format.parquet.fields import field_of
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import IMPORTED
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.parquet_source import text_bytes
from sparkhaven.writers.transfer.leaf_readers import FoundLeaf

CODEC = "LZ4_RAW"  # of what is read back at once
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What a source has of one date; ``leaves``: those of a tree with rows of it."""

    value: str
    leaves: tuple[FoundLeaf, ...]
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ConvertedRows:
    """The rows of a date as a merge reads them, in their order; ``digests`` of the columns, by name."""

    sources: tuple[MergeSource, ...]
    digests: Mapping[str, int]


class ImportSource(Protocol):
    """Rows of one or several dates. ``name`` and ``layout``: what the merge record says of their origin."""

    @property
    def name(self) -> str: ...

    @property
    def layout(self) -> str: ...

    def check(self) -> None:
        """Refuses other columns or types than those of the table, before anything is written."""

    def look(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, for a dry run: nothing is written."""

    def take(self, on_progress: Progress) -> Sequence[Part]:
        """The dates and their rows, to be merged. The table's lock is held."""

    def id_of(self, part: Part, *, ordered: bool) -> str:
        """Names the rows of a date: another name for other rows. ``ordered``: also for the same in another order."""

    def convert(self, part: Part, directory: Path, on_progress: Progress) -> ConvertedRows:
        """The rows of a date, in the types of the columns; what has to be written goes below ``directory``."""

    def release(self) -> None:
        """Removes what ``take`` has written; idempotent."""


def stored_batch(stored: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """A batch as ``table.parquet`` has it, of arrays in the types of the columns."""
    coded = [
        array.dictionary_encode() if column.storage is Storage.SYMBOL else array
        for column, array in zip(stored, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(coded, schema=pa.schema([field_of(column) for column in stored]))


def parquet_rows(fs: Fs, directory: Path, rows: int, state: FileState, stored: tuple[Column, ...]) -> MergeSource:
    """A ``table.parquet`` that an import has written, as a source of its merge."""
    source = MergeSource(directory, "", IMPORTED, 0, -1, 0, rows, rows, {NAME: state})
    return replace(source, text_bytes=text_bytes(fs, source, stored))
