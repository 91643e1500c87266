"""What a feed of files is: values only, which pickle; and the formats that files have.

A format says what can be told without its code, and the module of that, imported when needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from sparkhaven.ingest.bad_rows import Unit
from sparkhaven.ingest.spec import (
    FILE_META,
    FILES,
    UTF8,
    Clock,
    CsvOptions,
    Format,
    Limit,
    MissingColumns,
    Traits,
)
from sparkhaven.store.epochs.state.commit_policy import DEFAULT_MAX_FILE_AGE_S
from sparkhaven.store.epochs.state.log_values import FileId

if TYPE_CHECKING:
    from sparkhaven.ingest.feeds.files.formats.decoding import FormatCode

MissingDirectory = Literal["fail", "wait"]
UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", "._copying_", ".swp", ".swx", "~")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """``unit``: what rows are numbered by. ``is_text``: it has lines, in an encoding. ``row_bytes``: the usual size."""

    unit: Unit
    is_text: bool
    row_bytes: float
    module: str

    @property
    def code(self) -> FormatCode:
        return cast("FormatCode", import_module(f"sparkhaven.ingest.feeds.files.formats.{self.module}"))


FORMATS: Mapping[Format, FileFormat] = {
    "json": FileFormat("line", True, 150.0, "json_files"),
    "csv": FileFormat("line", True, 60.0, "csv_files"),
    "parquet": FileFormat("row", False, 25.0, "parquet_files"),
}


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """Options of a feed of files. ``path`` is an absolute directory or glob; ``max_file_age_s`` bounds what is kept.

    A file that does not end as a complete one is left until it has not changed for ``settle_s`` (0: taken at once).
    Names that end as one of ``unfinished`` does are passed over, in whatever case. ``missing_columns``: a file whose
    header or schema lacks a stored column is refused, or has nulls there.
    ``encoding`` is that of texts (``ingest.encodings``); ``binary_as_text`` takes Parquet columns of bytes for Strings.
    """

    traits: ClassVar[Traits] = Traits("files", FileId, FILES, FILE_META, ("file",))

    path: str
    format: Format = "json"
    csv: CsvOptions = field(default_factory=CsvOptions)
    max_per_trigger: Limit = field(default_factory=Limit)
    max_file_age_s: float = DEFAULT_MAX_FILE_AGE_S
    settle_s: float = 10.0
    unfinished: tuple[str, ...] = UNFINISHED
    missing_directory: MissingDirectory = "fail"
    missing_columns: MissingColumns = "fail"
    encoding: str = "utf-8"
    binary_as_text: bool = False

    def can_be_cut(self, clock: Clock) -> bool:
        """Whether files can be read in parts.

        Not in encodings where a line feed may be another byte's half, and not where the newest instant of a whole
        file is the clock.
        """
        plain = not FORMATS[self.format].is_text or self.encoding == UTF8
        return plain and clock.kind != "batch"
