"""The options of ``df.write.format("deephaven")``: texts, checked and turned into those of ``frame_options``.

With ``option("user", "ns.T")`` a frame becomes a user table, by options of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkhaven.jobs.settings.frame_options import FrameOptions, frame_options
from sparkhaven.jobs.settings.stream_model import BadRowsModel
from sparkhaven.readers.spark.options import (
    BATCH,
    COMMON,
    SAVE,
    STREAM,
    WHERE,
    given_texts,
    json_object,
    missing,
    names,
    no_table,
    truth,
    whole_number,
)
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName

SPARKS = frozenset({"checkpointlocation", "queryname"})  # what Spark puts among the options of a source
KEYS_OF_BAD_ROWS = frozenset(BadRowsModel.model_fields)
INSERTS = f"INSERT INTO, insertInto and writeTo pass no options of a write: call {SAVE}"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Checked options of one write. ``label``: the name under which a frame is written once."""

    frame: FrameOptions
    label: str | None = None


def write_options(options: Mapping[str, str], environ: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """The options of a write, whose names are not case-sensitive; SettingsError or InvalidNameError for wrong ones.

    ``path`` is the name of the table, the argument of ``save`` or ``start``; the root may be in the environment.
    """
    _refuse_keys_of_bad_rows(options)
    _refuse_reads(options)
    texts = given_texts(options, (*_OPTIONS, "path"), SPARKS)
    if environ.get("SPARKHAVEN_ROOT"):
        texts.setdefault("root", environ["SPARKHAVEN_ROOT"])
    parsed = {option: parse(name, texts[name]) for name, (option, parse) in _OPTIONS.items() if name in texts}
    for name in ("root", "stream", "internal", "value"):
        if name not in parsed:
            hint = "or set SPARKHAVEN_ROOT; " if name == "root" else ""
            raise missing(name, f'.option("{name}", "{_EXAMPLES[name]}")', hint + INSERTS)
    table = texts.get("path")
    if table is None or ":/" in table:  # toTable hands over the directory of a table of Spark's catalog
        raise no_table("write", "start" if streaming else "save", table)
    label = parsed.pop("label", None)
    if label is not None and streaming:
        raise SettingsError(
            "a streaming query has a label",
            where=f"stream {parsed['stream']}",
            found=label,
            hint="leave it out. Batches are known by their ids",
        )
    if label is not None and "positions" in parsed:
        raise SettingsError("a frame with positions has a label", where=f"stream {parsed['stream']}", found=label)
    return WriteOptions(frame_options(table=table, **parsed), label)


def _refuse_reads(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() in _READS:
            raise SettingsError(
                f"option {name!r} is for reads, and this is a write", where=WHERE, found=options[name], hint=INSERTS
            )


def _refuse_keys_of_bad_rows(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() in KEYS_OF_BAD_ROWS:
            raise SettingsError(
                f"{name!r} is a key of option 'badRows'",
                where=WHERE,
                expected=f'.option("badRows", {_EXAMPLES["badRows"]!r})',
                found=f"option {name!r}",
            )


def _text(name: str, text: str) -> str:
    if not text:
        raise SettingsError(f"option {name!r} is empty", where=WHERE, expected=_EXAMPLES.get(name))
    return text


def _root(name: str, text: str) -> str:
    return str(local_path(_text(name, text)).absolute())


def _rule(name: str, text: str) -> str | Mapping[str, Any]:
    return _object(name, text) if text.lstrip().startswith("{") else _text(name, text)


def _object(name: str, text: str) -> Mapping[str, Any]:
    return json_object(name, text, _EXAMPLES[name])


def _names(name: str, text: str) -> tuple[str, ...]:
    return names(name, text, _EXAMPLES[name])


def _lossy(name: str, text: str) -> tuple[str, ...] | bool:
    return truth(name, text) if text.strip().lower() in ("true", "false") else _names(name, text)


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "root": ("root", _root),
    "stream": ("stream", _text),
    "internal": ("internal", _rule),
    "value": ("value", _rule),
    "schema": ("schema", _text),
    "label": ("label", _text),
    "positions": ("positions", _object),
    "durability": ("durability", _text),
    "ignore": ("ignore", _names),
    "lossy": ("lossy", _lossy),
    "allowGap": ("allow_gap", truth),
    "adopt": ("adopt", truth),
    "acceptRule": ("accept_rule", truth),
    "keepEpochs": ("keep_epochs", whole_number),
    "bounds": ("bounds", _object),
    "badRows": ("bad_rows", _object),
}
_READS = {name.lower() for name in (*BATCH, *COMMON, *STREAM)} - {name.lower() for name in (*_OPTIONS, "path")}
_EXAMPLES = {
    "root": "/data/db",
    "stream": "ticks",
    "internal": "Sym",
    "value": "At",
    "schema": "my.schema",
    "positions": '{"partition": "partition", "offset": "offset"}',
    "ignore": "Note, Extra",
    "lossy": "Px, Ratio",
    "bounds": '{"max_past": "30d", "clock": "wall"}',
    "badRows": '{"max_rows": 100, "max_fraction": 0.01}',
}


USER = "user"
SAVE = 'df.write.format("deephaven").option("user", "ns.T").mode("append").save("/data/db")'
_KNOWN = (USER, "root", "path", "partitionBy", "schema", "internal")


@dataclass(frozen=True, slots=True)
class UserOptions:
    """Which user table to save, and how; those of ``save_table``."""

    root: Path
    table: TableName
    partition_by: str | None = None
    schema: Path | None = None
    internal: str | None = None


def names_user_table(options: Mapping[str, str]) -> bool:
    return any(name.lower() == USER for name in options)


def user_options(options: Mapping[str, str], environ: Mapping[str, str]) -> UserOptions:
    """The options of a write, whose names are not case-sensitive; SettingsError, InvalidNameError for wrong ones.

    ``path``, the argument of ``save``, is the database root; so is ``root``, and SPARKHAVEN_ROOT without either.
    """
    texts = given_texts(options, _KNOWN)
    roots = [texts[name] for name in ("root", "path") if texts.get(name)]
    if len(set(roots)) > 1:
        raise SettingsError(
            "two database roots are given", where=WHERE, expected=SAVE, found=" and ".join(roots), hint="leave one out"
        )
    root = roots[0] if roots else environ.get("SPARKHAVEN_ROOT")
    if not root:
        raise missing("root", SAVE, "or set SPARKHAVEN_ROOT")
    schema = texts.get("schema")
    return UserOptions(
        local_path(root).absolute(),
        TableName.parse(texts[USER]),
        texts.get("partitionBy"),
        None if schema is None else local_path(schema).absolute(),
        texts.get("internal"),
    )
