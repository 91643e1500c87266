"""The first rows of a feed of files, as they stand: of several files, so that what later ones have is seen too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.raw_file import chunks
from sparkhaven.ingest.encodings import utf8_chunks
from sparkhaven.ingest.feeds.base import SILENT
from sparkhaven.ingest.feeds.files.decode import KnownFile
from sparkhaven.ingest.feeds.files.discovery.listing import FeedListing
from sparkhaven.ingest.feeds.files.discovery.path_pattern import missing_directory
from sparkhaven.ingest.feeds.files.header import header_doubt, header_remark
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.csv.sample import CsvRecords
from sparkhaven.ingest.formats.json.sample import Record, fields_of, record_of
from sparkhaven.ingest.sample_rows import Sample, TypedPart, Unreadable
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs

FILES = 16  # that a sample is taken from
BLOCK = 1 << 18  # bytes looked at together
KEPT = 1000  # unreadable records that are named
WITHOUT_NAME = "a stream file cannot name a field without a name"

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
    take = {"json": _json, "csv": _csv, "parquet": _parquet}[options.format]
    sample = take(fs, chosen, options, rows, len(chosen) == len(files))
    if not sample.rows:
        reasons = [f"{bad.position}: {bad.reason}" for bad in sample.unreadable[:3]]
        raise FeedError(
            "the sample has no rows to infer from" if not reasons else "no record of the sample can be read",
            where=options.path,
            expected=f"rows in {options.format}",
            found="; ".join(reasons) or f"no row in {len(chosen)} files",
            hint="name files with rows" if not reasons else f"correct the files, or the format, now {options.format}",
        )
    return sample


def _shares(rows: int, files: int) -> Iterator[Callable[[int], int]]:
    """For each file how many of the rows it may give, from how many there are by then."""
    for left in range(files, 0, -1):
        yield lambda done, left=left: -(-(rows - done) // left)  # type: ignore[misc]


def _json(fs: Fs, files: Sequence[File], options: FilesOptions, rows: int, every: bool) -> Sample:
    records: list[Record] = []
    positions: list[str] = []
    bad: list[Unreadable] = []
    for (file, _), share in zip(files, _shares(rows, len(files)), strict=True):
        most = len(records) + share(len(records))
        for number, line in _lines(fs, file, options):
            record = record_of(line)
            if isinstance(record, str):
                bad.append(Unreadable(f"{_name(file)} line {number}", record))
            elif len(records) == most:
                every = False
                break
            else:
                records.append(record)
                positions.append(f"{_name(file)} line {number}")
            if len(bad) == KEPT:
                every = False
                break
    fields, unnamed = fields_of(records)
    return Sample(Path(options.path).name, "json", fields, positions, every, tuple(bad), unnamed)


def _lines(fs: Fs, file: FileId, options: FilesOptions) -> Iterator[tuple[int, bytes]]:
    pieces = utf8_chunks(chunks(fs, file), options.encoding, file.path)
    for block in line_blocks(pieces, block=BLOCK):
        for index, number in enumerate(block.numbers.tolist()):
            line = block.line(index)
            if line.strip():
                yield number, line


def _csv(fs: Fs, files: Sequence[File], options: FilesOptions, rows: int, every: bool) -> Sample:
    positions: list[str] = []
    bad: list[Unreadable] = []
    kept: list[dict[str, str]] = []
    headers: list[tuple[str, ...]] = []
    for (file, _), share in zip(files, _shares(rows, len(files)), strict=True):
        records, unreadable, whole, header = _records(fs, file, options, share(len(kept)))
        headers.append(header)
        kept += [fields for _, fields in records]
        positions += [f"{_name(file)} line {number}" for number, _ in records]
        bad += unreadable
        every &= whole
    names = dict.fromkeys(name for header in headers for name in header)
    fields = {name: [record.get(name) for record in kept] for name in names}
    lacking = tuple(name for name in names if any(name not in header for header in headers if header))
    unnamed: dict[str, str] = dict.fromkeys([name for name in fields if not name], WITHOUT_NAME)
    named = {name: values for name, values in fields.items() if name}
    null, quoted = options.csv.null, options.csv.quoted_null
    origin = Path(options.path).name
    sample = Sample(origin, "csv", named, positions, every, tuple(bad), unnamed, lacking, null, quoted)
    doubt = header_doubt(fs, files[0][0], options)
    return sample if doubt is None else replace(sample, remarks=(header_remark(files[0][0], doubt),))


def _records(
    fs: Fs, file: FileId, options: FilesOptions, most: int
) -> tuple[list[tuple[int, dict[str, str]]], list[Unreadable], bool, tuple[str, ...]]:
    """Records of one file, those that cannot be read, whether that is all of it, and the names of its fields."""
    taken, first = CsvRecords(options.csv), 1
    bad: list[Unreadable] = []
    rejects = Rejects(
        SILENT, sink=lambda rows: bad.extend(Unreadable(f"{_name(file)} line {b.line}", b.explanation) for b in rows)
    )
    whole = True
    while first:  # a second time for a file with a quote that nothing closes
        rest = None
        for read in line_blocks(utf8_chunks(chunks(fs, file), options.encoding, file.path), block=BLOCK):
            block = read.after(first - 1) if first > 1 else read
            block = block if rest is None else rest.before(block)
            _, used = taken.decode(block, file.path, rejects, last=False)
            rest = block.rest(used) if used < len(block) else None
            if len(taken.records) > most:
                whole = False
                break
        if rest is not None and whole:
            taken.decode(rest, file.path, rejects, last=True)
        first = (taken.unclosed() or 0) if whole else 0
    rejects.flush()
    whole &= len(taken.records) <= most
    return taken.records[:most], bad[:KEPT], whole, taken.names


def _parquet(fs: Fs, files: Sequence[File], options: FilesOptions, rows: int, every: bool) -> Sample:
    from sparkhaven.ingest.formats.parquet.sample import first_rows

    positions: list[str] = []
    parts: list[tuple[dict[str, TypedPart], int]] = []
    for (file, known_file), share in zip(files, _shares(rows, len(files)), strict=True):
        columns, count, whole = first_rows(
            fs,
            file,
            share(len(positions)),
            utc96=known_file.utc96,
            bytes_too=options.binary_as_text,
            constants=known_file.constants.texts,
        )
        parts.append((columns, count))
        positions += [f"{_name(file)} row {number}" for number in range(1, count + 1)]
        every &= whole
    names = dict.fromkeys(name for columns, _ in parts for name in columns)
    fields = {
        name: [columns[name] if name in columns else TypedPart(pa.nulls(count)) for columns, count in parts]
        for name in names
        if name
    }
    lacking = tuple(name for name in names if any(name not in columns for columns, _ in parts))
    unnamed: dict[str, str] = dict.fromkeys([name for name in names if not name], WITHOUT_NAME)
    return Sample(Path(options.path).name, "parquet", fields, positions, every, (), unnamed, lacking)


def _name(file: FileId) -> str:
    """How rows name their file: without its directory, so that a copy of the feed gives the same schema."""
    return Path(file.path).name
