"""The first records of a CSV file, and whether the one that names the fields looks like a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.encodings import utf8_chunks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.csv.csv_records import DoubtfulHeader, doubtful_header, read_record
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs

RECORDS = 200  # that are compared with the header
BLOCK = 1 << 16


def header_doubt(file: PlannedFile, options: FilesOptions) -> DoubtfulHeader | None:
    """What speaks against the header of a file; None: nothing, or it has none. Errors as ``PlannedFile.chunks``."""
    if options.format != "csv" or not options.csv.header:
        return None
    records = first_records(file, options)
    return doubtful_header(records[0], records[1:]) if records else None


def header_remark(file: FileId, doubt: DoubtfulHeader) -> str:
    """What a person should know of it, and the setting for files without a header."""
    looks = f"the first line of {Path(file.path).name} looks like a row, not like a header ({doubt})"
    return f'{looks}: if it is a row, write header = false and names = ["…"], one for each field, in [feed]'


def remarks_on(fs: Fs, file: FileId, options: FilesOptions) -> list[str]:
    """The remark, if there is one; none on a file that cannot be read: whoever decodes it says so."""
    try:
        doubt = header_doubt(PlannedFile(fs, file), options)
    except (OSError, SparkhavenError):
        return []
    return [] if doubt is None else [header_remark(file, doubt)]


def first_records(file: PlannedFile, options: FilesOptions) -> list[Sequence[str]]:
    """The texts of the first records of a file, each on a line of its own."""
    dialect = options.csv
    pieces = utf8_chunks(file.chunks(), options.encoding, file.split.path)
    records: list[Sequence[str]] = []
    for block in islice(line_blocks(pieces, block=BLOCK), 1):
        for index, number in enumerate(block.numbers.tolist()):
            line = block.line(index).decode("utf-8", "replace")
            commented = dialect.comment and line.startswith(dialect.comment)
            if number <= dialect.skip_lines or not line.strip() or commented:
                continue
            try:
                record = [text for text, _ in read_record(line, dialect.delimiter, dialect.quote)]
            except ValueError:  # it goes on in the next line
                continue
            records.append(record[:-1] if dialect.trailing_delimiter and len(record) > 1 and not record[-1] else record)
            if len(records) > RECORDS:
                return records
    return records
