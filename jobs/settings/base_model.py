"""What the models of all tables of a stream file start from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from jobs.settings.toml_values import parse_duration, parse_size

Seconds = Annotated[float, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
Count = Annotated[int, Field(ge=1)]
Encoding = Literal[
    "utf-8",
    "latin-1",
    "iso-8859-1",
    "iso-8859-15",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "utf-16",
    "utf-16le",
    "utf-16be",
]
DIALECT = ("names", "delimiter", "quote", "null", "quoted_null", "trailing_delimiter")  # of CSV, in files and messages


class SettingsModel(BaseModel):
    """A table of the file: only known keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


class MaxPerTrigger(SettingsModel):
    """Most that one batch takes."""

    bytes: Bytes | None = None
    """Bytes, as a number or a text like `"64MB"` (10^6) or `"64 MiB"` (2^20)."""
    rows: Count | None = None
    """Rows; those of files are estimated from their bytes before they are read."""
    files: Count | None = None
    """Files; not for topics."""

    @model_validator(mode="after")
    def _any(self) -> MaxPerTrigger:
        if self.bytes is None and self.rows is None and self.files is None:
            raise ValueError('give at least one of bytes, rows, files, like { bytes = "64MB" }')
        return self
