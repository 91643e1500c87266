"""Reading a TOML file by sections: typed values, unknown keys and wrong types as errors that name the key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from .errors import ConfigurationError

T = TypeVar("T")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)(?://([^/]*))?(/.*)?\Z")
_UNITS = {
    **dict.fromkeys(("s", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_CLOCK = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")


class Section:
    """A table of a TOML file. Every key must be asked for before ``done``, which refuses the others."""

    def __init__(self, values: Mapping[str, Any], file: Path, name: str, environ: Mapping[str, str]) -> None:
        self._values, self._file, self._name, self._environ = values, file, name, environ
        self._asked: set[str] = set()

    @property
    def base(self) -> Path:
        """The directory that relative paths start from."""
        return self._file.parent

    def where(self, key: str = "") -> str:
        """The file and the key, for errors."""
        return f"{self._file}: {'.'.join(filter(None, [self._name, key]))}"

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def section(self, key: str) -> Section:
        """A table inside; an empty one if there is none."""
        name = ".".join(filter(None, [self._name, key]))
        return Section(self._value(key, dict, {}, "a table"), self._file, name, self._environ)

    def sections(self, key: str) -> dict[str, Section]:
        """The tables inside a table, by name."""
        outer = self.section(key)
        return {name: outer.section(name) for name in outer._values}

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty, with ``${NAME}`` from the environment."""
        text = self._value(key, str, default, "a text")
        return self._filled(key, text)

    def texts(self, key: str, default: tuple[str, ...] | None = ()) -> tuple[str, ...]:
        """A list of texts."""
        listed = self._value(key, list, None if default is None else list(default), "a list of texts")
        if not all(isinstance(text, str) for text in listed):
            raise self.wrong(key, "a list of texts", listed)
        return tuple(self._filled(key, text) for text in listed)

    def path(self, key: str, default: str | None = None) -> Path:
        """A path; a relative one starts from the directory of the file."""
        return self._local(key, self.text(key, default))

    def paths(self, key: str) -> tuple[Path, ...]:
        """A list of paths."""
        return tuple(self._local(key, text) for text in self.texts(key))

    def _local(self, key: str, text: str) -> Path:
        """As ``store.io.local_path`` of the commands reads a path; Airflow's environment does not have it."""
        url = _URL.match(text)
        if url is None:
            return self.base / Path(text).expanduser()
        scheme, host, path = url.groups()
        if scheme.lower() != "file" or (host or "localhost").lower() != "localhost" or not path:
            hint = "mount it and name the mounted directory"
            raise self.wrong(key, "a path of this machine, or file:///PATH", text, hint)
        return Path(unquote(path))

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number."""
        number: int = self._value(key, int, default, "a whole number")
        if isinstance(number, bool) or number < least:
            raise self.wrong(key, f"a whole number, {least} or more", number)
        return number

    def flag(self, key: str, default: bool = False) -> bool:
        """true or false."""
        flag: bool = self._value(key, bool, default, "true or false")
        return flag

    def day(self, key: str, default: date | None = None) -> date:
        """A date, as TOML's own type or as a text."""
        day = self._value(key, (date, str), default, "a date like 2026-01-31")
        try:
            return date.fromisoformat(day) if isinstance(day, str) else day
        except ValueError:
            raise self.wrong(key, "a date like 2026-01-31", day) from None

    def duration(self, key: str, default: str) -> timedelta:
        """A duration like ``10 min``."""
        return self._parsed(key, default, duration, "a duration like '90 s', '10 min', '6 h' or '2 d'")

    def clock(self, key: str, default: str | None = None) -> timedelta:
        """A time of day as the time since midnight; ``24:00`` is the end of the day."""
        return self._parsed(key, default, clock, "a time of day like 16:00, or 24:00 for the end of the day")

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of some words."""
        word = self.text(key, default)
        if word not in allowed:
            raise self.wrong(key, " or ".join(allowed), word)
        return word

    def mapping(self, key: str) -> dict[str, str]:
        """A table of texts; numbers and flags become texts as Spark writes them."""
        table = self._value(key, dict, {}, "a table of texts")
        plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in table.items()}
        if not all(isinstance(value, str | int | float) for value in plain.values()):
            raise self.wrong(key, "a table of texts", table)
        return {name: self._filled(f"{key}.{name}", str(value)) for name, value in plain.items()}

    def done(self) -> None:
        """ConfigurationError for the first key that nobody has asked for."""
        for key in self._values:
            if key not in self._asked:
                near = get_close_matches(key, self._asked, 1)
                raise ConfigurationError(
                    f"unknown key {key}",
                    where=self.where(key),
                    expected=", ".join(sorted(self._asked)),
                    hint=f"did you mean {near[0]}?" if near else "remove it",
                )

    def wrong(self, key: str, expected: str, value: object, hint: str | None = None) -> ConfigurationError:
        """The error for a value of this section."""
        return ConfigurationError(
            f"{key or self._name} has an invalid value",
            where=self.where(key),
            expected=expected,
            found=repr(value),
            hint=hint,
        )

    def _parsed(self, key: str, default: str | None, parse: Callable[[str], T], expected: str) -> T:
        text = self.text(key, default)
        try:
            return parse(text)
        except ValueError:
            raise self.wrong(key, expected, text) from None

    def _value(self, key: str, kind: Any, default: Any, expected: str) -> Any:
        self._asked.add(key)
        if key not in self._values:
            if default is None:
                raise ConfigurationError(f"{key} is missing", where=self.where(key), expected=expected)
            return default
        value = self._values[key]
        if not isinstance(value, kind):
            raise self.wrong(key, expected, value)
        return value

    def _filled(self, key: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if not self._environ.get(name):
                raise ConfigurationError(
                    f"the environment has no {name}",
                    where=self.where(key),
                    expected=f"a value for {text}",
                    hint=f"set {name} where Airflow's scheduler, DAG processor and workers start",
                )
            return self._environ[name]

        filled = _VARIABLE.sub(value, text)
        if not filled.strip():
            raise self.wrong(key, "a text that is not empty", text)
        return filled


def read_toml(file: Path, environ: Mapping[str, str] = os.environ) -> Section:
    """The whole file as a section. ConfigurationError if it is missing or no TOML."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("the configuration cannot be read", where=file, found=error) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError("the configuration is not TOML", where=file, found=error) from None
    return Section(values, file, "", environ)


def duration(text: str) -> timedelta:
    """``90 s``, ``10 min``, ``6 h``, ``2 d``; ValueError for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(text)
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def clock(text: str) -> timedelta:
    """``16:00`` as the time since midnight; ValueError for anything else."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None or (match[1] == "24" and match[2] != "00"):
        raise ValueError(text)
    return timedelta(hours=int(match[1]), minutes=int(match[2]))


def at_clock(value: timedelta) -> time:
    """The time of day of a time since midnight; 24:00 becomes 00:00."""
    seconds = int(value.total_seconds()) % 86_400
    return time(seconds // 3600, seconds // 60 % 60)
