"""What a feed of files is: values only, which pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.spec.payload_formats import (
    FILE_META,
    FILES,
    UTF8,
    CsvOptions,
    Format,
    Limit,
    MissingColumns,
    Traits,
)
from sparkhaven.ingest.spec.stream_spec import Clock
from sparkhaven.store.epochs.state.commit_policy import DEFAULT_MAX_FILE_AGE_S
from sparkhaven.store.epochs.state.log_values import FileId

MissingDirectory = Literal["fail", "wait"]

UNFINISHED = (".tmp", ".temp", ".part", ".partial", ".filepart", ".inprogress", "._copying_", ".swp", ".swx", "~")


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
