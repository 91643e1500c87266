"""Options of ``spark.read.format("deephaven")`` and ``spark.readStream``; what options of writes share with them.

Spark passes all options as texts. Their names are not case-sensitive; an unknown one is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

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


WHERE = 'format("deephaven")'
NAMES = 'names like A, B or ["A", "B"]'
VIEW = "CREATE TEMPORARY VIEW v USING deephaven OPTIONS (root '/data/db', path 'NS.T')"
SAVE = 'df.write.format("deephaven").mode("append").options(...).save("NS.T")'
OF_CATALOG = frozenset({"location", "owner", "provider", "external", "is_managed_location", "comment", "collation"})
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


def option_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value if isinstance(value, int | dict) else list(value))  # type: ignore[call-overload]


def given_texts(options: Mapping[str, str], known: Iterable[str], others: Collection[str] = ()) -> dict[str, str]:
    """The texts by the names in ``known``; ``others``: lower-case names of options of Spark's own, which are left out.

    SettingsError for an unknown name, and for a table of Spark's catalog.
    """
    declared = {name.lower(): name for name in known}
    texts: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower in declared and text is not None:
            texts[declared[lower]] = text
        elif lower in OF_CATALOG or lower.startswith("option."):
            raise of_catalog(f"{name} = {text}")
        elif lower not in declared and lower not in others:
            near = get_close_matches(lower, declared, 1, 0.6)
            raise SettingsError(
                f"unknown option {name!r}",
                where=WHERE,
                expected=", ".join(declared.values()),
                found=name,
                hint=f"did you mean {declared[near[0]]!r}?" if near else "remove it",
            )
    return texts


def truth(name: str, text: str) -> bool:
    """``true`` or ``false``, in any case of letters; else a SettingsError."""
    if text.lower() not in ("true", "false"):
        raise unfit(name, text, "true or false")
    return text.lower() == "true"


def whole_number(name: str, text: str) -> int:
    """A whole number from 1 on; else a SettingsError."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise unfit(name, text, "a whole number from 1 on")
    return int(text)


def names(name: str, text: str, expected: str = NAMES) -> tuple[str, ...]:
    """Names, separated by commas or as a JSON list of texts; else a SettingsError."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    listed = json_value(name, text, expected)
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        raise unfit(name, text, "a list of names", expected)
    return tuple(listed)


def json_value(name: str, text: str, expected: str) -> Any:
    """Any JSON; else a SettingsError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise unfit(name, text, f"JSON: {error}", expected) from None


def json_object(name: str, text: str, expected: str) -> Mapping[str, Any]:
    """An object in JSON; else a SettingsError."""
    parsed = json_value(name, text, expected)
    if not isinstance(parsed, dict):
        raise unfit(name, text, "an object in JSON", expected)
    return parsed


def missing(name: str, expected: str, hint: str | None = None) -> SettingsError:
    return SettingsError(f"option {name!r} is missing", where=WHERE, expected=expected, hint=hint)


def no_table(verb: str, call: str, name: str | None = None) -> SettingsError:
    """The error for a read or write without the name of a table as ``path``, the argument of ``call``."""
    return SettingsError(
        f"the {verb} names no table",
        where=WHERE,
        expected=f'.{call}("Namespace.Table")',
        found=name,
        hint=f"tables of Spark's catalog keep no options. Read by {VIEW}, write by {SAVE}",
    )


def of_catalog(option: str) -> SettingsError:
    """The error for CREATE TABLE and what else makes or reads a table of Spark's catalog."""
    return SettingsError(
        "a table of Spark's catalog cannot have this format. The catalog keeps no options",
        where=WHERE,
        expected=VIEW,
        found=option,
        hint=f"a temporary view is for reading. To write, call {SAVE}",
    )


def unfit(name: str, text: str, what: str, expected: str | None = None, hint: str | None = None) -> SettingsError:
    """The error for a text that is not ``what``. ``expected``: an example or the form; default: ``what``."""
    return SettingsError(
        f"option {name!r} is not {what}", where=WHERE, expected=expected or what, found=repr(text), hint=hint
    )


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
        dates=_parsed(values, "dates", names),
        sources=_parsed(values, "sources", names),
        columns=_parsed(values, "columns", names),
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
    epochs = json_value(name, text, expected)
    if not isinstance(epochs, dict) or not all(type(epoch) is int and epoch >= 0 for epoch in epochs.values()):
        raise unfit(name, text, what, expected)
    return epochs
