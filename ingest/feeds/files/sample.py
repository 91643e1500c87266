"""The first rows of a feed of files, as they stand: of several files, so that what later ones have is seen too.

Also here: how many bytes of a file make one row, guessed from its head before the file is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.content.packing import packing_of_name
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.files.discovery.listing import FeedListing
from sparkhaven.ingest.feeds.files.discovery.path_pattern import missing_directory
from sparkhaven.ingest.feeds.files.formats.decoding import SampledFiles
from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.parquet.known_file import KnownFile
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.spec.payload_formats import Format
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs

FILES = 16  # that a sample is taken from

File = tuple[FileId, KnownFile]


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


PACKED = 8.0  # times that text shrinks, about, when it is packed


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
