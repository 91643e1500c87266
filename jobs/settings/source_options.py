"""The options of ``df.write.format("deephaven")``: texts, checked and turned into those of ``frame_options``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jobs.settings.frame_options import FrameOptions, frame_options
from store.epochs.retention import DEFAULTS
from store.errors import SettingsError

SPARKS = frozenset({"path", "checkpointlocation", "queryname"})  # what Spark puts among the options of a source
QUARANTINE = frozenset({"badrows", "bad_rows", "quarantine"})
_DEFAULTS: dict[str, Any] = {
    "schema": None,
    "positions": None,
    "durability": "fsync",
    "ignore": (),
    "bounds": None,
    "bad_rows": None,
    "keep_epochs": DEFAULTS.keep_epochs,
    "allow_gap": False,
    "adopt": False,
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Checked options of one write. ``label``: the name under which a frame is written once."""

    frame: FrameOptions
    label: str | None = None


def write_options(given: Mapping[str, str], environ: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """The options of a write, whose names are not case-sensitive; SettingsError or InvalidNameError for wrong ones.

    ``path`` is the name of the table, the argument of ``save`` or ``start``; the root may be in the environment.
    """
    texts = {name.lower(): text for name, text in given.items() if text is not None}
    if environ.get("SPARKHAVEN_ROOT"):
        texts.setdefault("root", environ["SPARKHAVEN_ROOT"])
    _refuse_unknown(texts)
    found = {
        option: parse(name, texts[name.lower()]) for name, (option, parse) in _OPTIONS.items() if name.lower() in texts
    }
    for name in ("root", "stream", "internal", "value"):
        if name not in found:
            raise SettingsError(
                f"option {name!r} is missing",
                where='format("deephaven")',
                expected=f'.option("{name}", "{_EXAMPLES[name]}")',
                hint="or set SPARKHAVEN_ROOT" if name == "root" else None,
            )
    table = texts.get("path")
    if table is None:
        what = "start" if streaming else "save"
        raise SettingsError(
            "the write names no table", where='format("deephaven")', expected=f'.{what}("Namespace.Table")'
        )
    label = found.pop("label", None)
    if label is not None and streaming:
        raise SettingsError(
            "a streaming query needs no label: its batches are known by their ids",
            where=f"stream {found['stream']}",
            found=label,
        )
    if label is not None and "positions" in found:
        raise SettingsError("a frame with positions needs no label", where=f"stream {found['stream']}", found=label)
    return WriteOptions(frame_options(table=table, **{**_DEFAULTS, **found}), label)


def _refuse_unknown(texts: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in _OPTIONS}
    for name in texts.keys() & QUARANTINE:
        raise SettingsError(
            "this way of writing has no quarantine: a row that cannot be stored ends it, with nothing committed",
            where='format("deephaven")',
            found=f"option {name!r}",
            hint="write with foreachBatch(sparkhaven.deephaven_writer(..., bad_rows=...)),"
            " or sparkhaven.write_frame for a batch frame",
        )
    for name in sorted(texts.keys() - known.keys() - SPARKS):
        near = get_close_matches(name, known, 1, 0.6)
        raise SettingsError(
            f"unknown option {name!r}",
            where='format("deephaven")',
            expected=", ".join(_OPTIONS),
            found=name,
            hint=f"did you mean {known[near[0]]!r}?" if near else "remove it",
        )


def _text(name: str, text: str) -> str:
    if not text:
        raise SettingsError(f"option {name!r} is empty", where='format("deephaven")', expected=_EXAMPLES.get(name))
    return text


def _root(name: str, text: str) -> str:
    return str(Path(_text(name, text)).absolute())


def _rule(name: str, text: str) -> str | Mapping[str, Any]:
    return _object(name, text) if text.lstrip().startswith("{") else _text(name, text)


def _object(name: str, text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _unfit(name, text, f"JSON: {error}") from error
    if not isinstance(found, dict):
        raise _unfit(name, text, "an object in JSON")
    return found


def _list(name: str, text: str) -> list[str]:
    if text.lstrip().startswith("["):
        try:
            found: list[str] = json.loads(text)
        except ValueError as error:
            raise _unfit(name, text, f"JSON: {error}") from error
        return found
    return [part.strip() for part in text.split(",") if part.strip()]


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _unfit(name, text, "true or false")
    return text.lower() == "true"


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise _unfit(name, text, "a whole number from 1 on")
    return int(text)


def _unfit(name: str, text: str, what: str) -> SettingsError:
    return SettingsError(
        f"option {name!r} is not {what}",
        where='format("deephaven")',
        expected=_EXAMPLES.get(name, what),
        found=text,
    )


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "root": ("root", _root),
    "stream": ("stream", _text),
    "internal": ("internal", _rule),
    "value": ("value", _rule),
    "schema": ("schema", _text),
    "label": ("label", _text),
    "positions": ("positions", _object),
    "durability": ("durability", _text),
    "ignore": ("ignore", _list),
    "allowGap": ("allow_gap", _truth),
    "adopt": ("adopt", _truth),
    "keepEpochs": ("keep_epochs", _number),
    "bounds": ("bounds", _object),
}
_EXAMPLES = {
    "root": "/data/db",
    "stream": "ticks",
    "internal": "Sym",
    "value": "At",
    "schema": "my.schema",
    "positions": '{"partition": "partition", "offset": "offset"}',
    "ignore": "Note, Extra",
    "bounds": '{"max_past": "30d", "clock": "wall"}',
}
