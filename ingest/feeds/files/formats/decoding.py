"""What the formats of files have in common: what is known of a file, what its rows become, and the blocks of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.lines import LineBlock, line_blocks
from sparkhaven.ingest.content.raw_file import NOTHING, KnownFile, PlannedFile
from sparkhaven.ingest.encodings import utf8_chunks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.router import TableChoice
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec import StreamSpec, Target
from sparkhaven.ingest.values.typed_rows import TypedRows, Value
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.source_rows import SourceRows

Payload = Callable[[int], bytes]  # the text of a row by its number
DecodeOne = Callable[[bytes, RejectedRow, Rejects], "list[Value] | BadRow"]
SAMPLED_BLOCK = 1 << 18  # bytes looked at together
WITHOUT_NAME = "a stream file cannot name a field without a name"
KEPT = 1000  # unreadable records of a sample that are named


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the rows of a file become: the columns ``targets``, by the settings of a stream.

    ``strict``: rows with other fields are bad.
    """

    spec: StreamSpec
    options: FilesOptions
    targets: tuple[Target, ...]
    known: KnownFile = NOTHING
    strict: bool = False


@dataclass(frozen=True, slots=True)
class TablesDecoding:
    """How a file is decoded for its tables, by number.

    ``deciding`` has the column that decides which of them a row is of, for a choice; None: one table has all rows.
    """

    tables: Mapping[int, tuple[Decoding, Rejects]]
    deciding: tuple[Decoding, TableChoice] | None = None

    @property
    def options(self) -> FilesOptions:
        return next(decoding.options for decoding, _ in self.tables.values())

    @property
    def sources(self) -> list[SourceRows]:
        """Where the rows of the file are counted, once for each table."""
        return [rejects.source for _, rejects in self.tables.values()]


@dataclass(frozen=True, slots=True)
class SampledFiles:
    """Files that a sample is taken from, and at most how many ``rows``; ``every``: the feed has no others."""

    files: Sequence[tuple[PlannedFile, KnownFile]]
    options: FilesOptions
    rows: int
    every: bool

    @property
    def origin(self) -> str:
        return Path(self.options.path).name

    def shares(self) -> Iterator[tuple[PlannedFile, KnownFile, Callable[[int], int]]]:
        """Each file, with how many rows it may give, from how many there are by then."""
        for left, (file, known) in zip(range(len(self.files), 0, -1), self.files, strict=True):
            yield file, known, lambda done, left=left: -(-(self.rows - done) // left)  # type: ignore[misc]


class FormatCode(Protocol):
    """What a format of files can do: the functions of its module."""

    def decode(self, file: PlannedFile, tables: TablesDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
        """Typed rows block by block, with the number of their table, and the text of each row by its number."""

    def decode_one(self, decoding: Decoding) -> DecodeOne:
        """Exact values of one payload that quarantine keeps."""

    def sample(self, sampled: SampledFiles) -> Sample:
        """Rows as they stand, about as many of each file."""


def text_blocks(pieces: Iterator[bytes], options: FilesOptions, file: PlannedFile, first: int) -> Iterator[LineBlock]:
    """Blocks of lines in UTF-8; the first line has the number ``first``."""
    return line_blocks(utf8_chunks(pieces, options.encoding, file.split.path), first=first)


def sampled_blocks(file: PlannedFile, options: FilesOptions) -> Iterator[LineBlock]:
    return line_blocks(utf8_chunks(file.chunks(), options.encoding, file.split.path), block=SAMPLED_BLOCK)


def name_of(file: PlannedFile) -> str:
    """How rows of a sample name their file: without its directory, so that a copy of the feed gives the same schema."""
    return Path(file.split.path).name
