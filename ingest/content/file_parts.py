"""Parts of a file that several tasks read: which files can be cut, and what a part of lines holds.

Bytes [start, stop) stand for the lines, the CSV records (``ingest.feeds.files.formats.csv_files``), or the row groups
of a Parquet file, that begin within them. So parts that cover a file cover its rows, wherever they are cut, and lines
keep their numbers: those before a part are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sparkhaven.ingest.content.lines import BLOCK
from sparkhaven.ingest.content.packing import MAGIC_BYTES, packing_of, packing_of_name, unread_packing
from sparkhaven.ingest.content.raw_file import CHUNK, PlannedFile, RawFile, line_pieces
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs

MIN_PART = 8 << 20  # bytes below which a part is not worth a task
SMALL_BATCH = MIN_PART  # bytes up to which one task does a batch alone


def is_cuttable(fs: Fs, file: FileId) -> bool:
    """Whether a file of such a stream is plain: bytes inside of a packed one mean nothing."""
    if packing_of_name(file.path) is not None:
        return False
    try:
        head = fs.read_range(Path(file.path), 0, min(MAGIC_BYTES, file.size))
    except (OSError, CorruptFileError):
        return False  # whoever reads it says what is wrong
    return packing_of(head) is None and unread_packing(file.path, head) is None


def part_lines(file: PlannedFile, chunk: int = CHUNK, block: int = BLOCK) -> tuple[int, Iterator[bytes]]:
    """The number of the first line that begins in a part, and the bytes of its lines, ``block`` and some more a piece.

    The lines before it are counted, and an end is looked for, in pieces of ``chunk``.
    """
    raw, part = file.stream(), file.split
    assert isinstance(part, FilePart)  # noqa: S101  the caller has looked
    begin, number = _first_line(raw, part.start, chunk)
    if begin >= part.stop:
        return number, iter(())
    end = part.size if part.stop >= part.size else _line_end(raw, part.stop - 1, chunk)
    return number, line_pieces(raw, begin, end, block)


def pieces(raw: RawFile, begin: int, end: int, chunk: int | None = None) -> Iterator[bytes]:
    raw.seek(begin)
    while begin < end and (piece := raw.read(min(chunk or CHUNK, end - begin))):
        begin += len(piece)
        yield piece


def _first_line(raw: RawFile, start: int, chunk: int) -> tuple[int, int]:
    """Where the first line begins at or after ``start``, and its number."""
    if not start:
        return 0, 1
    number, offset = 1, 0
    while offset < start - 1:
        raw.seek(offset)
        piece = raw.read(min(chunk, start - 1 - offset))
        if not piece:
            return offset, number
        number += int(np.count_nonzero(np.frombuffer(piece, np.uint8) == 10))
        offset += len(piece)
    end = _line_end(raw, offset, chunk)
    return end, number + 1


def _line_end(raw: RawFile, offset: int, chunk: int) -> int:
    """Behind the first line feed at or after ``offset``; the end of the file if there is none."""
    raw.seek(offset)
    while piece := raw.read(chunk):
        line_feed = piece.find(b"\n")
        if line_feed >= 0:
            return offset + line_feed + 1
        offset += len(piece)
    return offset
