"""The first rows of a feed of files, as they stand: of several files, so that what later ones have is seen too.

Also here: how many bytes of a file make one row, guessed from its head before the file is read; and whether the record
of a CSV file that names the fields looks like a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.packing import packing_of_name
from sparkhaven.ingest.content.raw_file import KnownFile, PlannedFile
from sparkhaven.ingest.encodings import utf8_chunks
from sparkhaven.ingest.feeds.files.formats.decoding import SampledFiles
from sparkhaven.ingest.feeds.files.listing import FeedListing, missing_directory
from sparkhaven.ingest.feeds.files.options import FORMATS, FilesOptions
from sparkhaven.ingest.formats.csv.csv_records import DoubtfulHeader, doubtful_header, read_record
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec import Format
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs

FILES = 16  # that a sample is taken from

File = tuple[FileId, KnownFile]
PACKED = 8.0  # times that text shrinks, about, when it is packed
RECORDS = 200  # that are compared with the header
BLOCK = 1 << 16


def sample_files(fs: Fs, options: FilesOptions, rows: int) -> Sample:
    """At most so many rows of the files of a feed; FeedError if there is no file, or none has a row."""
    listing = FeedListing(fs, options.path, options.unfinished, lambda path: False)
    if not listing.exists():
        raise missing_directory(listing.root, FeedError)
    files = [FileId(str(f.path), f.stat.size, f.stat.mtime_ns) for f in listing.look(0)]
    if not files:
        raise FeedError(
            "the feed has no file yet",
            where=options.path,
            expected="at least one file with rows, to infer a schema from",
            found=listing.passed().to_json() or "nothing",
            hint="name an existing file. Names with a leading dot or underscore, or like .tmp, are skipped",
        )
    files.sort(key=lambda file: file.path)
    return sample_of(fs, [(file, KnownFile()) for file in files], options, rows)


def sample_of(fs: Fs, files: Sequence[File], options: FilesOptions, rows: int) -> Sample:
    """At most so many rows, about as many of each of some files spread over all of them."""
    step = max(len(files) / FILES, 1.0)
    chosen = [files[int(index * step)] for index in range(min(FILES, len(files)))]
    opened = [(PlannedFile(fs, file), known) for file, known in chosen]
    sample = FORMATS[options.format].code.sample(SampledFiles(opened, options, rows, len(chosen) == len(files)))
    if not sample.rows:
        reasons = [f"{bad.position}: {bad.reason}" for bad in sample.unreadable[:3]]
        raise FeedError(
            "the sample has no rows to infer from" if not reasons else "no record of the sample can be read",
            where=options.path,
            expected=f"rows in {options.format}",
            found="; ".join(reasons) or f"no row in {counted(len(chosen), 'file')}",
            hint="name files with rows" if not reasons else f"correct the files, or the format, now {options.format}",
        )
    return sample


def row_bytes(fs: Fs, file: FileId, kind: Format) -> float:
    """Bytes on disk for each row. Parquet tells exactly; of text the first chunk is counted."""
    form, planned = FORMATS[kind], PlannedFile(fs, file)
    if not file.size:
        return form.row_bytes
    try:
        if not form.is_text:
            rows: int = pq.ParquetFile(pa.PythonFile(planned.stream(), mode="r")).metadata.num_rows
            return file.size / max(rows, 1)
        head = next(planned.chunks(), b"")
    except (SparkhavenError, pa.ArrowException, OSError):
        return form.row_bytes  # whoever decodes the file says what is wrong with it
    size = len(head) / max(head.count(b"\n"), 1) if head else form.row_bytes
    return size / PACKED if packing_of_name(file.path) is not None else size


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
