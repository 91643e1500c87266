"""Faults of a stream file in its own terms: key, found, expected, and the nearest known name."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from sparkhaven.ingest.feeds.registry import PLANNED, is_foreign, settings_of
from sparkhaven.jobs.settings.stream_model import StreamModel
from sparkhaven.store.errors import SettingsError

TABLE = ("model_type", "model_attributes_type", "dict_type", "mapping_type", "is_instance_of", "dataclass_type")
EXPECTED = {
    **dict.fromkeys(TABLE, "a table"),
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "string_too_long": "one character",
    "int_type": "a whole number, without quotes",
    "int_parsing": "a whole number, without quotes",
    "int_from_float": "a whole number",
    "float_type": "a number, without quotes",
    "bool_type": "true or false, without quotes",
    "list_type": "a list in brackets",
    "too_short": "a list that is not empty",
}
EXAMPLES = {
    "name": 'name = "flights"',
    "table": 'table = "Namespace.Table"',
    "schema": 'schema = "Namespace.Table.schema"',
    "type": 'type = "files"',
    "feed": 'a table [feed] with type = "files", "kafka" or "delta"',
    "partition": "a table [partition] with internal and value",
    "internal": 'internal = { column = "origin" }',
    "value": 'value = { column = "time", zone = "UTC" }',
    "path": 'path = "feed/*.json"',
    "bootstrap": 'bootstrap = "127.0.0.1:9092"',
    "message": 'message = "pkg.Trade"',
    "format": 'format = "json"',
    "max_per_trigger": '{ bytes = "64MB" }',
    "commit": '[commit] with trigger = "1 second"',
    "bad_rows": "[bad_rows] with max_rows = 1000",
    "tables": "a table [[tables]] with table, schema, where and partition",
    "where": 'where = { column = "type", equals = "T" }',
    "equals": 'equals = "T", or equals = ["T", "U"]',
    "topic": 'topic = "trades", or topic = ["trades", "quotes"]',
    "ignore": 'ignore = ["field"]',
    "columns": '[columns] with name = { from = "field" }',
}
LIFTED = ("columns.ignore", "columns.required")  # what stands among the columns, as the model has it
EITHER = ("equals", "topic", "clock")  # keys whose value may have one of two types
FIRST = next(iter(PLANNED))  # whose keys are shown while the type is not known


def translate(
    error: ValidationError, raw: dict[str, Any], path: Path, root: type[BaseModel] = StreamModel
) -> SettingsError:
    """One SettingsError: the first fault in full, the others by a line each under ``also``.

    ``root`` is the model of the file.
    """
    faults = sorted(
        (_fault(dict(detail), raw, path, root) for detail in error.errors(include_url=False)),
        key=lambda f: not f["unknown"],
    )
    first, others = faults[0], [fault for fault in faults[1:] if fault["where"] != faults[0]["where"]]
    also = "; ".join(": ".join(filter(None, (fault["where"], fault["what"]))) for fault in others) or None
    return SettingsError(
        first["what"],
        where=f"{path}: {first['where']}" if first["where"] else path,
        expected=first["expected"],
        found=first["found"],
        hint=first["hint"],
        also=also,
    )


def _fault(detail: dict[str, Any], raw: dict[str, Any], path: Path, root: type[BaseModel]) -> dict[str, Any]:
    loc = _plain_location(detail["loc"])
    kind, key = detail["type"], next((str(step) for step in reversed(loc) if isinstance(step, str)), "")
    fault: dict[str, Any] = {
        "what": f"{key}: {detail['msg'][:1].lower()}{detail['msg'][1:]}",
        "where": ".".join(map(str, loc)),
        "expected": EXPECTED.get(kind),
        "found": _as_written(raw, loc),
        "hint": None,
        "unknown": False,
    }
    if kind in EXPECTED:
        fault["hint"] = f"write it like {EXAMPLES[key]}" if key in EXAMPLES else f"correct {key} in the file"
    if kind in TABLE:  # the message names a class of ours
        fault["what"] = f"{key}: input should be a table"
    if kind == "extra_forbidden":
        keys = _known_keys(loc[:-1], raw, root)
        fault |= {"what": f"unknown key {key!r}", "expected": ", ".join(keys), "found": key, "unknown": True}
        fault["hint"] = _near(key, keys) or "remove it"
    elif kind in ("missing", "union_tag_not_found"):
        missing = "feed.type" if kind == "union_tag_not_found" else ".".join(map(str, loc))
        fault |= {"what": f"missing key {missing!r}", "found": "no such key", "where": ".".join(map(str, loc[:-1]))}
        last = missing.rpartition(".")[2]
        fault["expected"] = EXAMPLES.get(last, f"{last} = ...")
        fault["hint"] = (
            f"add it{f' to [{loc[0]}]' if len(loc) > 1 or kind == 'union_tag_not_found' else ' above the first table'}"
        )
    elif kind in ("literal_error", "union_tag_invalid"):
        choices = list(PLANNED) if kind == "union_tag_invalid" else _choices(detail["ctx"]["expected"])
        written = detail["ctx"]["tag"] if kind == "union_tag_invalid" else _as_written(raw, loc)
        name = "feed.type" if kind == "union_tag_invalid" else key
        fault |= {"what": f"{name} has a value that is not known", "expected": ", ".join(choices), "found": written}
        fault["hint"] = _near(str(written), choices)
    elif kind == "value_error":
        fault["what"] = f"{key or path.name}: {detail['ctx']['error']}"
        fault["hint"] = f"correct {key} in the file" if key else "correct the file"
    elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        fault["expected"] = detail["msg"].removeprefix("Input should be ")
        fault["hint"] = f"correct {key} in the file"
    return fault


def _plain_location(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pydantic's location without the tag of the feed, and where what was lifted from the columns stands."""
    if len(loc) > 1 and loc[0] == "feed" and loc[1] in PLANNED:
        loc = (loc[0], *loc[2:])
    for lifted in LIFTED:
        if lifted in loc:
            index = loc.index(lifted)
            loc = (*loc[:index], *lifted.split("."), *loc[index + 1 :])
    return tuple(step for number, step in enumerate(loc) if not _is_branch(loc, number))


def _is_branch(loc: tuple[Any, ...], number: int) -> bool:
    """Whether a step is none of the file: pydantic names the member of a union that it has tried."""
    step = str(loc[number])
    return step.startswith(("list[", "literal[", "constrained-")) or (
        step in ("str", "int") and loc[number - 1] in EITHER
    )


def _as_written(raw: dict[str, Any], loc: tuple[Any, ...]) -> str | None:
    """The value at a location as written in the file, without values of the environment."""
    if loc[:2] == ("feed", "client"):
        return None  # may be a secret
    node: Any = raw
    for lifted in LIFTED:
        words = tuple(lifted.split("."))
        for index in range(len(loc) - 1):
            whole = (*loc[:index], lifted, *loc[index + 2 :])
            if loc[index : index + 2] == words and _has(raw, whole):
                loc = whole
    for step in loc:
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(node, str):
        return node
    return None if isinstance(node, dict) and node else repr(node)


def _has(node: Any, loc: tuple[Any, ...]) -> bool:
    for step in loc:
        try:
            node = node[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _known_keys(loc: tuple[Any, ...], raw: dict[str, Any], root: type[BaseModel]) -> list[str]:
    model: type[BaseModel] | None = root
    for step in loc:
        if model is root and step == "feed":
            feed = raw.get("feed")
            model = _feed_model(feed.get("type") if isinstance(feed, dict) else None)
        elif model is not None and step in model.model_fields:
            model = _model_of(model.model_fields[step].annotation) or model
    if model is None:
        return []
    names = [field.alias or name for name, field in model.model_fields.items()]
    return [name for name in names if name not in LIFTED]


def _feed_model(kind: object) -> type[BaseModel]:
    feed_type = kind if isinstance(kind, str) and (kind in PLANNED or is_foreign(kind)) else FIRST
    return settings_of(feed_type)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _model_of(argument)) is not None), None)


def _choices(text: str) -> list[str]:
    """The values of pydantic's list ``'a', 'b' or 'c'``."""
    return [piece.strip().strip("'") for piece in text.replace(" or ", ", ").split(",")]


def _near(word: str, words: list[str]) -> str | None:
    close = get_close_matches(word.lower(), [name.lower() for name in words], n=1, cutoff=0.6)
    return next((f"did you mean {name!r}?" for name in words if close and name.lower() == close[0]), None)
