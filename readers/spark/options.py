"""Options of ``spark.read.format("deephaven")`` and ``spark.readStream.format("deephaven")``.

Spark passes all of them as text. Their names are case-insensitive; an unknown one is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from store.errors import SettingsError
from store.layout import TableName
from store.nearest import meant
from store.scan.checksums import ChecksumVerify, chosen_mode
from store.scan.selection import Tier, check_tier

Instants = Literal["timestamp", "long", "timestamp-truncate"]
Chars = Literal["string", "int"]
Epochs = dict[str, int]
Names = tuple[str, ...] | None

TASK_BYTES = 128 << 20
BATCH = ("root", "path", "tier", "epoch", "asOf", "dates", "sources", "columns", "where", "instant", "char")
COMMON = ("checksumVerify", "skipSetAside", "taskBytes")
STREAM = ("start", "maxRowsPerTrigger", "maxEpochsPerTrigger")
HINT = "the how-to page about data frames lists them"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read. ``start``, ``max_rows`` and ``max_epochs`` are of streams; ``task_bytes``: most bytes of a task."""

    root: Path
    name: str
    tier: Tier = "all"
    epoch: int | Epochs | None = None
    as_of: str | None = None
    dates: Names = None
    sources: Names = None
    columns: Names = None
    where: str | None = None
    instant: Instants = "timestamp"
    char: Chars = "string"
    checksum_verify: ChecksumVerify = "read"
    skip_set_aside: bool = False
    task_bytes: int = TASK_BYTES
    start: Literal["earliest", "latest"] | Epochs = "earliest"
    max_rows: int | None = None
    max_epochs: int | None = None


def read_options(given: Mapping[str, str], environ: Mapping[str, str], *, stream: bool | None = None) -> ReadOptions:
    """The options of a read; SettingsError for one that is unknown, missing or has no such value.

    ``stream``: whether it is one; None: not known, Spark asks for the schema of either in the same way.
    """
    known = (*BATCH, *COMMON, *STREAM)
    names = {name.lower(): name for name in known}
    values: dict[str, str] = {}
    for key, value in given.items():
        name = names.get(key.lower())
        if name is None:
            close = meant(key.lower(), names)
            raise _refused(key, ", ".join(known), "no such option", close or HINT)
        values[name] = value
    for name in {None: (), True: ("epoch", "asOf"), False: STREAM}[stream]:
        if name in values:
            where = "batch queries" if stream else "streams"
            raise _refused(name, "another option", f"an option of {where}", "`start` says where a stream begins")
    root = values.get("root") or environ.get("SPARKHAVEN_ROOT")
    if not root:
        raise _refused("root", "the directory of the database", "nothing", "or set SPARKHAVEN_ROOT")
    if "path" not in values:
        raise _refused("path", "NS.T", "nothing", 'name the table in load("NS.T")')
    return ReadOptions(
        root=Path(root),
        name=str(TableName.parse(values["path"])),
        tier=check_tier(values.get("tier", "all")),
        epoch=_parsed(values, "epoch", _epoch),
        as_of=values.get("asOf"),
        dates=_parsed(values, "dates", _names),
        sources=_parsed(values, "sources", _names),
        columns=_parsed(values, "columns", _names),
        where=values.get("where"),
        instant=_one_of(values, "instant", get_args(Instants)),
        char=_one_of(values, "char", get_args(Chars)),
        checksum_verify=chosen_mode(values.get("checksumVerify"), environ),
        skip_set_aside=_one_of(values, "skipSetAside", ("false", "true")) == "true",
        task_bytes=_parsed(values, "taskBytes", _number) or TASK_BYTES,
        start=_parsed(values, "start", _start) or "earliest",
        max_rows=_parsed(values, "maxRowsPerTrigger", _number),
        max_epochs=_parsed(values, "maxEpochsPerTrigger", _number),
    )


def option_text(value: object) -> str:
    """A value as the text of an option, for ``read_frame``."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value if isinstance(value, int | dict) else list(value))  # type: ignore[call-overload]


def _parsed(values: Mapping[str, str], name: str, parse: Callable[[str, str], Any]) -> Any:
    return parse(name, values[name]) if name in values else None


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> Any:
    value = values.get(name, choices[0])
    if value not in choices:
        raise _refused(name, " | ".join(choices), repr(value), meant(value, choices))
    return value


def _names(name: str, text: str) -> tuple[str, ...]:
    """Names apart by commas, or a JSON list of them."""
    if text.lstrip().startswith("["):
        found = _json(name, text, "a list of names")
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise _refused(name, "a list of names", text)
        return tuple(found)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise _refused(name, "a number of at least 1", repr(text))
    return int(text)


def _epoch(name: str, text: str) -> int | Epochs:
    return int(text) if text.isdecimal() else _epochs(name, text)


def _start(name: str, text: str) -> str | Epochs:
    return text if text in ("earliest", "latest") else _epochs(name, text, 'earliest | latest | {"STREAM": EPOCH}')


def _epochs(name: str, text: str, expected: str = '{"STREAM": EPOCH}') -> Epochs:
    found = _json(name, text, expected)
    if not isinstance(found, dict) or not all(type(epoch) is int and epoch >= 0 for epoch in found.values()):
        raise _refused(name, expected, text)
    return found


def _json(name: str, text: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _refused(name, expected, repr(text)) from None


def _refused(name: str, expected: str, found: str, hint: str | None = None) -> SettingsError:
    return SettingsError(
        "an option of the data source cannot be used", where=f"option {name}", expected=expected, found=found, hint=hint
    )
