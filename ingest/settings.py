"""What the models of the tables of a stream file share: known keys only, units, sizes of batches, paths.

Values come from text: durations, sizes, fixed times. Anything else is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sparkhaven.ingest.spec import CsvOptions, Limit
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path

DURATION_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
MONTH_UNITS = {**dict.fromkeys(("month", "months"), 1), **dict.fromkeys(("y", "year", "years"), 12)}
SIZE_UNITS = {
    "b": 1,
    **{name: 1000**power for power, name in enumerate(("kb", "mb", "gb", "tb"), 1)},
    **{name: 1024**power for power, name in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_NUMBER_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Period:
    """A time by the calendar: months, and seconds beside them."""

    months: int = 0
    seconds: float = 0.0

    def after(self, moment: datetime) -> datetime:
        """The moment that much later; where its month has no such day, on the last one. OverflowError: beyond 9999."""
        month = moment.year * 12 + moment.month - 1 + self.months
        if month >= 10_000 * 12:
            raise OverflowError("a year beyond 9999")
        first = moment.replace(year=month // 12, month=month % 12 + 1, day=1)
        last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        return first.replace(day=min(moment.day, last.day)) + timedelta(seconds=self.seconds)


def parse_duration(text: object) -> float:
    """Seconds of a text like ``1 second``, ``100 ms`` or ``7 d``; anything else is a ValueError."""
    match = _NUMBER_UNIT.match(text) if isinstance(text, str) else None
    unit = DURATION_UNITS.get(match[2].lower()) if match else None
    if match is not None and match[2].lower() == "m":
        raise ValueError(f'"m" may be minutes or months: write "{match[1]} min" for minutes')
    if match is not None and match[2].lower() in MONTH_UNITS:
        raise ValueError(f'a {match[2].rstrip("s")} is no fixed time: write days, like "30 d"')
    if match is None or unit is None:
        raise ValueError('a duration is a number with a unit, like "1 second", "100 ms" or "7 d"')
    return float(match[1]) * unit


def parse_period(text: str) -> Period:
    """A duration, or a whole number of months or years by the calendar; anything else is a ValueError."""
    match = _NUMBER_UNIT.match(text)
    if match is not None and match[2].lower() == "m":
        raise ValueError(f'"m" may be minutes or months: write "{match[1]} min", or "{match[1]} months"')
    if match is None or match[2].lower() not in MONTH_UNITS:
        return Period(seconds=parse_duration(text))
    if not match[1].isdigit():
        raise ValueError("a whole number of months or years")
    return Period(months=int(match[1]) * MONTH_UNITS[match[2].lower()])


def parse_size(value: object) -> int:
    """Bytes of a whole number, or of a text like ``64MB`` (10^6) or ``64 MiB`` (2^20); else a ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _NUMBER_UNIT.match(value) if isinstance(value, str) else None
    unit = SIZE_UNITS.get(match[2].lower()) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if size < 1:
        raise ValueError('a size is a number of bytes above 0, or a text like "64MB" or "64 MiB"')
    return size


def parse_instant_ns(value: object) -> int:
    """Nanoseconds since the epoch of an ISO text or TOML time with a zone; else a ValueError."""
    message = 'a time is written like "2013-12-31T23:59:59Z", with its zone'
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(message) from None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError(message)
    elapsed = moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1000


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
