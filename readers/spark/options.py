"""Options of ``spark.read.format("deephaven")`` and ``spark.readStream.format("deephaven")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkhaven.readers.spark import option_texts
from sparkhaven.readers.spark.option_texts import (
    VIEW,
    WHERE,
    given_texts,
    missing,
    no_table,
    truth,
    unfit,
    whole_number,
)
from sparkhaven.store.errors import SettingsError, meant
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName, chosen_user_intraday
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import ChecksumVerify, chosen_mode
from sparkhaven.store.scan.selection import Tier, check_tier
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.null_char import chosen_null_char

if TYPE_CHECKING:
    from sparkhaven.readers.arrow.pinned_table import PinnedTable

Instants = Literal["timestamp", "long", "timestamp-truncate"]
Chars = Literal["string", "int"]
Reader = Literal["auto", "jvm", "python"]
Epochs = dict[str, int]
Names = tuple[str, ...] | None

READERS = get_args(Reader)
DEFAULT_READER: Reader = "auto"
TASK_BYTES = 128 << 20
LEAST_TASK_BYTES = 1 << 20  # below that Spark spends more on a task than on its rows
BATCH = ("root", "path", "tier", "epoch", "asOf", "dates", "sources", "columns", "where", "instant", "char", "reader")
COMMON = ("checksumVerify", "nullChar", "userIntraday", "skipSetAside", "taskBytes")
STREAM = ("start", "maxRowsPerTrigger", "maxEpochsPerTrigger", "skipWithdrawn")
EPOCH = '{"STREAM": EPOCH}'
_BATCH_ONLY = {
    "epoch": "`start` says where a stream begins",
    "asOf": "`start` says where a stream begins",
    "reader": "remove it: streams are read by Python",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read. ``start`` and what follows are of streams; ``task_bytes``: most bytes of a task. ``reader``: of a
    batch, ``auto`` is Java where it reads exactly what Python does.

    ``skip_withdrawn``: pass over epochs that withdraw rows which a stream has read before.
    """

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
    reader: Reader = DEFAULT_READER
    checksum_verify: ChecksumVerify = "read"
    null_char: int = CHAR_NULL
    user_intraday: str | None = None
    skip_set_aside: bool = False
    task_bytes: int = TASK_BYTES
    start: Literal["earliest", "latest"] | Epochs = "earliest"
    max_rows: int | None = None
    max_epochs: int | None = None
    skip_withdrawn: bool = False

    @property
    def place(self) -> TablePlace:
        """Where the table is."""
        return TablePlace(Fs(), Layout(self.root, self.user_intraday), TableName.parse(self.name))

    def pinned(self) -> PinnedTable:
        """The snapshot to read. Raises what ``open_place`` raises."""
        from sparkhaven.readers.arrow.opening import open_place
        from sparkhaven.readers.arrow.snapshot import pinned_of

        table = open_place(
            self.place,
            epoch=self.epoch,
            as_of=self.as_of,
            checksum_verify=self.checksum_verify,
            null_char=self.null_char,
            skip_set_aside=self.skip_set_aside,
        )
        return pinned_of(table)


def read_options(options: Mapping[str, str], environ: Mapping[str, str], *, stream: bool | None = None) -> ReadOptions:
    """The options of a read; SettingsError for one that is unknown, missing or has no such value.

    ``stream``: whether it is one; None: not known, Spark asks for the schema of either in the same way.
    """
    values = given_texts(options, (*BATCH, *COMMON, *STREAM))
    for name in {None: (), True: _BATCH_ONLY, False: STREAM}[stream]:
        if name in values:
            raise SettingsError(
                f"option {name!r} is for {'batch queries' if stream else 'streams'}",
                where=WHERE,
                found=values[name],
                hint=_BATCH_ONLY.get(name, "read with spark.readStream, or remove it"),
            )
    root = values.get("root") or environ.get("SPARKHAVEN_ROOT")
    if not root:
        hint = f"or set SPARKHAVEN_ROOT. Spark's catalog keeps no options, so read by {VIEW}"
        raise missing("root", '.option("root", "/data/db")', hint)
    if "path" not in values:
        raise no_table("read", "load")
    return ReadOptions(
        root=local_path(root),
        name=str(TableName.parse(values["path"])),
        tier=check_tier(values.get("tier", "all")),
        epoch=_parsed(values, "epoch", _epoch),
        as_of=values.get("asOf"),
        dates=_parsed(values, "dates", option_texts.names),
        sources=_parsed(values, "sources", option_texts.names),
        columns=_parsed(values, "columns", option_texts.names),
        where=values.get("where"),
        instant=_one_of(values, "instant", get_args(Instants)),
        char=_one_of(values, "char", get_args(Chars)),
        reader=_one_of({"reader": DEFAULT_READER, **values}, "reader", READERS),
        checksum_verify=chosen_mode(values.get("checksumVerify"), environ),
        null_char=chosen_null_char(values.get("nullChar"), environ),
        user_intraday=chosen_user_intraday(values.get("userIntraday"), environ),
        skip_set_aside=_parsed(values, "skipSetAside", truth) or False,
        task_bytes=_parsed(values, "taskBytes", _task_bytes) or TASK_BYTES,
        start=_parsed(values, "start", _start) or "earliest",
        max_rows=_parsed(values, "maxRowsPerTrigger", whole_number),
        max_epochs=_parsed(values, "maxEpochsPerTrigger", whole_number),
        skip_withdrawn=_parsed(values, "skipWithdrawn", truth) or False,
    )


def _parsed(values: Mapping[str, str], name: str, parse: Callable[[str, str], Any]) -> Any:
    return parse(name, values[name]) if name in values else None


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> Any:
    choice = values.get(name, choices[0])
    if choice not in choices:
        raise unfit(name, choice, "one of its values", " | ".join(choices), meant(choice, choices))
    return choice


def _epoch(name: str, text: str) -> int | Epochs:
    return int(text) if text.isdecimal() else _epochs(name, text, "an epoch", f"N | {EPOCH}")


def _task_bytes(name: str, text: str) -> int:
    size = whole_number(name, text)
    if size < LEAST_TASK_BYTES:
        hint = "each task costs Spark some milliseconds. Leave it out for tasks of at most 128 MiB"
        raise unfit(name, text, f"at least {LEAST_TASK_BYTES} (1 MiB)", hint=hint)
    return size


def _start(name: str, text: str) -> str | Epochs:
    if text in ("earliest", "latest"):
        return text
    return _epochs(name, text, "the beginning of a stream", f"earliest | latest | {EPOCH}")


def _epochs(name: str, text: str, what: str, expected: str) -> Epochs:
    epochs = option_texts.json_value(name, text, expected)
    if not isinstance(epochs, dict) or not all(type(epoch) is int and epoch >= 0 for epoch in epochs.values()):
        raise unfit(name, text, what, expected)
    return epochs
