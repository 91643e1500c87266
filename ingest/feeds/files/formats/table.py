"""The formats of files, one a row: what can be told without its code, and the module of that, imported when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from sparkhaven.ingest.bad_rows import Unit
from sparkhaven.ingest.spec.payload_formats import Format

if TYPE_CHECKING:
    from sparkhaven.ingest.feeds.files.formats.decoding import FormatCode


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
