"""Files below a directory, as a feed.

Also here: the model of ``[feed]`` with type files, and the options that it stands for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sparkhaven.ingest.bad_rows import SHOWN, Rejects
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import (
    PATIENCE_S,
    SILENT,
    Block,
    Clock,
    RequeuedRows,
    ResumeRules,
    Source,
    TablesFeed,
    Trial,
    Waiting,
    WaitingCounts,
    try_rows,
)
from sparkhaven.ingest.feeds.files.listing import OLDER_NAMED, missing_directory, split_pattern
from sparkhaven.ingest.feeds.files.options import FORMATS, UNFINISHED, FilesOptions, MissingDirectory
from sparkhaven.ingest.feeds.files.planner import FilePlanner
from sparkhaven.ingest.router import TableRows
from sparkhaven.ingest.sample_rows import Sample
from sparkhaven.ingest.settings import (
    DIALECT,
    Encoding,
    MaxPerTrigger,
    PathText,
    Seconds,
    SettingsModel,
    beside,
    csv_options,
    given_keys,
)
from sparkhaven.ingest.spec import CsvOptions, MissingColumns, TableRoutes, Target
from sparkhaven.store.epochs.state.commit_policy import DEFAULT_MAX_FILE_AGE_S
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.managed_trees import refuse_managed, refuse_managed_above
from sparkhaven.store.quarantine.rejected_rows import RejectedRow
from sparkhaven.store.types.model import TableSchema

FILE_DIALECT = ("header", "skip_lines", "comment", *DIALECT)


class FilesFeedModel(SettingsModel):
    """``[feed]`` with type files."""

    type: Literal["files"]
    """Feed of files: a directory or glob on a mounted file system."""
    path: PathText
    """Directory or glob like `feed/*.json`; relative to the stream file."""
    format: Literal["json", "csv", "parquet"] = "json"
    """Format of the files; JSON is one object a line."""
    header: bool | None = None
    """CSV: whether the first line names the columns. Default: true."""
    names: list[str] | None = None
    """CSV: names of the columns, with `header = false`."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: `","`."""
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    """CSV: one character. Default: the double quote."""
    null: list[str] | None = None
    """CSV: texts that mean null where they are not quoted. Default: `[""]`. So is an empty line of one column."""
    quoted_null: bool | None = None
    """CSV: the texts of `null` mean null in quotes too. Default: false."""
    skip_lines: int | None = Field(default=None, ge=0)
    """CSV: lines to skip at the start of a file, before the header. Default: 0."""
    comment: Annotated[str, Field(min_length=1, pattern=r"^[^\r\n]+$")] | None = None
    """CSV: lines that begin with this text are skipped, except inside a quoted field."""
    trailing_delimiter: bool | None = None
    """CSV: a record, and the header, may end with one delimiter more. Default: false."""
    encoding: Encoding | None = None
    """Encoding of JSON and CSV. Default: `"utf-8"`."""
    binary_as_text: bool = False
    """Parquet: columns of bytes without annotation are texts in UTF-8."""
    max_per_trigger: MaxPerTrigger = MaxPerTrigger(bytes=256_000_000)
    """Largest batch: the smallest of the limits given."""
    max_file_age: Seconds = DEFAULT_MAX_FILE_AGE_S
    """A file older by this than the newest one that was ingested is skipped; one that arrives so late is reported by
    name.
    """
    settle: Seconds = 10.0
    """A text file that ends within a line is left until it has not changed for this long; `"0 s"`: ingested at once."""
    unfinished: list[Annotated[str, Field(min_length=1)]] = list(UNFINISHED)
    """Files whose names end so, in whatever case, are skipped; so are names that begin with a dot."""
    missing_directory: MissingDirectory = "fail"
    """A directory that does not exist: exit code 2, or wait for it."""
    missing_columns: MissingColumns = "fail"
    """A file whose header or schema lacks a stored column: refused, or null in that column."""

    @model_validator(mode="after")
    def _csv_only(self) -> FilesFeedModel:
        dialect_keys = given_keys(self, FILE_DIALECT)
        if dialect_keys and self.format != "csv":
            raise ValueError(f'format is not "csv", which these settings are for: {", ".join(dialect_keys)}')
        if self.encoding is not None and not FORMATS[self.format].is_text:
            raise ValueError('encoding is set, and format is neither "json" nor "csv"')
        if self.binary_as_text and self.format != "parquet":
            raise ValueError('binary_as_text is set, and format is not "parquet"')
        if self.header is False and not self.names:
            raise ValueError('header = false without names, like names = ["first", "second"]')
        if self.names and self.header is not False:
            raise ValueError("names are given, and header is not false")
        return self


def files_options(feed: FilesFeedModel, base: Path) -> FilesOptions:
    """The options of a checked ``[feed]``; a relative path starts from ``base``."""
    return FilesOptions(
        path=str(beside(base, feed.path)),
        format=feed.format,
        csv=csv_options(feed, FILE_DIALECT, CsvOptions()),
        max_per_trigger=feed.max_per_trigger.limit,
        max_file_age_s=feed.max_file_age,
        settle_s=feed.settle,
        unfinished=tuple(feed.unfinished),
        missing_directory=feed.missing_directory,
        missing_columns=feed.missing_columns,
        encoding=feed.encoding or "utf-8",
        binary_as_text=feed.binary_as_text,
    )


TRIED = 3  # files of a trial
WHOLE = 64 << 20  # bytes of a file that a trial reads whole


class FilesFeed(TablesFeed[FilesOptions, FileId]):
    """Files, or parts of them, each taken once. Decoders are imported where they are used: DuckDB takes its time."""

    settings = FilesFeedModel

    @classmethod
    def read(cls, part: FilesFeedModel, base: Path, fs: Fs) -> FilesOptions:
        return files_options(part, base)

    @property
    def resume(self) -> ResumeRules:
        return ResumeRules(remember_s=self.options.max_file_age_s)

    def check(self, fs: Fs) -> None:
        """SettingsError for a directory that does not exist, unless the feed waits for it, or that a table manages."""
        root, _ = split_pattern(fs, self.options.path)
        if fs.stat(root) is None:
            if self.options.missing_directory != "wait":
                raise missing_directory(root, SettingsError)
            return
        refuse_managed_above(fs, root)
        refuse_managed(fs, root)

    def check_columns(self, targets: Sequence[Target]) -> None:
        """What a decoder of CSV refuses, before a task does."""
        options = self.options
        if options.format == "csv":
            from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder

            payload = [target for target in targets if target.meta is None]
            CsvDecoder(payload, self.spec.ignore, options.csv, missing=options.missing_columns)

    def source(self, root: Path, tasks: int) -> Source:
        from sparkhaven.ingest.feeds.files.source import FilesStream, files_source

        table, *beside = map(TableName.parse, self.spec.fed_tables)
        stream = FilesStream(root, table, self.spec.stream, self.options, tasks, tuple(beside))
        return Source(files_source(stream, parts=self.options.can_be_cut(self.spec.partition.clock)), {})

    def waiting(self, fs: Fs, state: StreamState | None, patience: float = PATIENCE_S) -> Waiting:
        from sparkhaven.ingest.feeds.files.sample import remarks_on

        self.check(fs)
        planner = FilePlanner(fs, self.options, state.files if state else FileWindow(), time.time)
        planner.look()
        files, size = planner.waiting()
        remarks = [remark for file in planner.first(1) for remark in remarks_on(fs, file, self.options)]
        passed = planner.passed().to_json()
        older = [file.path for file in planner.older()]
        counts = WaitingCounts(
            waiting_files=files,
            waiting_bytes=size,
            older_files=len(older),
            older=older[-OLDER_NAMED:],
            passed=passed,
            remarks=remarks,
        )
        return Waiting(counts, f"{counted(files, 'file')}, {counted(size, 'byte')}", bytes=size, nothing=not files)

    def trial(self, fs: Fs, state: StreamState | None, schema: TableSchema) -> Trial | None:
        """The beginnings of the first files. Where the newest row of a file is the clock, large ones are left out."""
        planner = FilePlanner(fs, self.options, state.files if state else FileWindow(), time.time)
        planner.look()
        whole = self.spec.partition.clock.kind == "batch"
        files = [file for file in planner.first(TRIED) if not whole or file.size <= WHOLE]
        rejects = Rejects(SILENT, keep=SHOWN, frozen=self.spec.contract == "freeze")
        return try_rows((self.decode(fs, file, schema, rejects, time.time) for file in files), rejects)

    def blocks(
        self, fs: Fs, split: FileId, tables: Mapping[int, TableRows], routes: TableRoutes | None, clock: Clock
    ) -> Iterator[tuple[int, Block]]:
        from sparkhaven.ingest.feeds.files.decode import file_blocks

        return file_blocks(PlannedFile(fs, split), tables, routes, self.options, clock)

    @classmethod
    def sample(cls, fs: Fs, options: FilesOptions, rows: int) -> Sample:
        from sparkhaven.ingest.feeds.files.sample import sample_files

        return sample_files(fs, options, rows)

    def requeue(
        self, source: str, rows: Sequence[RejectedRow], targets: Sequence[Target], now_ns: int, rejects: Rejects
    ) -> RequeuedRows:
        from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
        from sparkhaven.ingest.feeds.files.formats.decoding import Decoding

        decoding = Decoding(self.spec, self.options, tuple(targets), strict=self.spec.strict)
        return requeue_file_rows(source, rows, decoding, now_ns, rejects)
