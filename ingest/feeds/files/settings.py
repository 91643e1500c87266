"""``[feed]`` of a stream file with type files: a pydantic model, and the options that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.feeds.files.options import UNFINISHED, FilesOptions, MissingDirectory
from sparkhaven.ingest.settings.base_model import (
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
from sparkhaven.ingest.spec.payload_formats import CsvOptions, MissingColumns
from sparkhaven.store.epochs.state.commit_policy import DEFAULT_MAX_FILE_AGE_S

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
