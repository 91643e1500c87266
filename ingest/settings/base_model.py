"""What the models of the tables of a stream file share: known keys only, units, sizes of batches, paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sparkhaven.ingest.settings.units import parse_duration, parse_size
from sparkhaven.ingest.spec.payload_formats import CsvOptions, Limit
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path


def mounted(path: str) -> str:
    """A path of this machine, as it is written."""
    try:
        local_path(path)
    except SettingsError as error:
        raise ValueError(f"expected {error.expected}, found {error.found}. To do: {error.hint}") from None
    return path


Seconds = Annotated[float, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
Count = Annotated[int, Field(ge=1)]
PathText = Annotated[str, Field(min_length=1), AfterValidator(mounted)]
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

    @property
    def limit(self) -> Limit:
        return Limit(self.bytes, self.rows, self.files)


def given_keys(model: SettingsModel, keys: Sequence[str]) -> list[str]:
    return [key for key in keys if getattr(model, key) is not None]


def csv_options(model: SettingsModel, keys: Sequence[str], default: CsvOptions) -> CsvOptions:
    """A CSV dialect by those of the keys that were given."""
    options: dict[str, Any] = {key: getattr(model, key) for key in given_keys(model, keys)}
    lists = {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
    return replace(default, **(options | lists))


def beside(base: Path, text: str) -> Path:
    """``text`` as a path, relative to ``base``, with ``..`` taken out so that a feed's path has one spelling."""
    joined = local_path(text, base)
    parts: list[str] = []
    for piece in joined.parts:
        if piece == ".." and len(parts) > 1:
            parts.pop()
        elif piece != "..":
            parts.append(piece)
    return Path(*parts)
