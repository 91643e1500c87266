"""``[feed]`` for files that somebody names: the format by the end of a name, of CSV the delimiter and the header."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, Required, TypedDict

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.content.packing import packing_of_name
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.files.listing import FeedListing
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.sample import first_records, header_doubt
from sparkhaven.ingest.formats.csv.csv_records import read_record
from sparkhaven.ingest.spec import CsvOptions
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path

FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".psv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = ",\t;|\x01"


class FileFeedKeys(TypedDict, total=False):
    """Keys of ``[feed]`` that files by name ask for."""

    type: Required[Literal["files"]]
    path: Required[str]
    format: Required[str]
    delimiter: str
    header: bool
    names: list[str]


def file_feed(fs: Fs, source: str) -> tuple[FileFeedKeys, tuple[str, ...]]:
    """The keys of ``[feed]`` for a file, a directory or a glob, and remarks on them; the path is absolute.

    SettingsError if there is no such file, or the format cannot be recognized.
    """
    path = local_path(source).absolute()
    stat = fs.stat(path)
    text = str(path)
    options = FilesOptions(text)
    listing = FeedListing(fs, text, options.unfinished, lambda path: False)
    files = sorted(listing.look(0), key=lambda listed: str(listed.path)) if listing.exists() else []
    if not files:
        raise SettingsError(
            "no such file to infer a schema from" if stat is None else "there is no file to infer a schema from",
            where=path,
            expected="a file, a directory or a glob of files, or a stream file (.toml) with [feed]",
            found="nothing" if stat is None else "a directory without a file that a feed would take",
            hint="check the path. Put a glob in quotes",
        )
    first = files[0]
    kind = format_of(first.path)
    if kind is None:
        raise SettingsError(
            "the format of the file cannot be recognized by its name",
            where=first.path,
            expected=f"a name that ends in {', '.join(FORMATS)}, or so with .gz, .bz2, .zst or .xz behind it",
            found=first.path.name,
            hint='name the format in a stream file: [feed] with type = "files", path and format',
        )
    feed: FileFeedKeys = {"type": "files", "path": text, "format": kind}
    if kind == "csv":
        file = PlannedFile(fs, FileId(str(first.path), first.stat.size, first.stat.mtime_ns))
        delimiter = _delimiter(file)
        if delimiter != ",":
            feed["delimiter"] = delimiter
        dialect = replace(options, format="csv", csv=CsvOptions(delimiter=delimiter))
        doubt = header_doubt(file, dialect)
        if doubt is not None and doubt.certain:
            fields = len(first_records(file, dialect)[0])
            feed |= {"header": False, "names": [f"Column{number}" for number in range(1, fields + 1)]}
            names = "names the fields Column1, Column2, …"
            return feed, (f"the first line of {first.path.name} is taken for a row ({doubt}): header = false {names}",)
    return feed, ()


def format_of(path: Path) -> str | None:
    """The format that the name of a file tells, whatever it is packed with."""
    if packing_of_name(str(path)) is not None:
        path = path.with_suffix("")
    return FORMATS.get(path.suffix.lower())


def _delimiter(file: PlannedFile) -> str:
    """The one that cuts the first line into most fields; a comma if none cuts it."""
    for block in line_blocks(file.chunks(), block=1 << 16):
        for index in range(len(block)):
            line = block.line(index).decode("utf-8", "replace")
            if line.strip():
                return max(DELIMITERS, key=lambda mark: _fields(line, mark))
    return ","


def _fields(line: str, delimiter: str) -> int:
    try:
        return len(read_record(line, delimiter, '"'))
    except ValueError:
        return 0
