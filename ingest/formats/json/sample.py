"""JSON lines as they stand: objects by the exact parser, and their fields by the names that ``from`` has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkhaven.ingest.formats.json.field_paths import Path, path_of
from sparkhaven.ingest.formats.json.json_rows import MAX_DEPTH, strict_object, too_deep

MAX_KEYS = 100  # of objects in one field; beyond, keys are taken for data
MAX_LEVELS = 8  # of objects in each other whose fields become columns

Record = dict[str, Any]


def record_of(line: bytes) -> Record | str:
    """The object of a line, or why it is none."""
    if too_deep(line):
        return f"nested too deeply: more than {MAX_DEPTH} levels"
    try:
        return strict_object(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"not UTF-8 (at byte {error.start})"
    except ValueError as error:
        return f"not JSON ({error})"


def fields_of(records: Sequence[Record | None]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Values by field, fields in the order in which they first appear, those inside objects by dotted names.

    A field is gone into if all of its values are objects or null, and their keys look like names and not like data.
    The second part has the fields that ``from`` cannot name, with the reason.
    """
    fields: dict[str, list[Any]] = {}
    unnamed: dict[str, str] = {}
    _gather(records, (), fields, unnamed)
    return fields, unnamed


def source_of(path: Path) -> str | None:
    """How ``from`` names a field; None if it cannot."""
    source = ".".join(name.replace(".", "\\.") for name in path)
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return source if source and path_of(source) == path else None


def _gather(
    records: Sequence[Record | None], prefix: Path, fields: dict[str, list[Any]], unnamed: dict[str, str]
) -> None:
    names = dict.fromkeys(name for record in records if record is not None for name in record)
    for name in names:
        path = (*prefix, name)
        values = [None if record is None else record.get(name) for record in records]
        source = source_of(path)
        if source is None:
            unnamed[".".join(path)] = "a stream file cannot name this field"
        elif len(path) < MAX_LEVELS and _has_fields(values):
            _gather(values, path, fields, unnamed)
        else:
            fields[source] = values


def _has_fields(values: Sequence[Any]) -> bool:
    """Whether the values are objects whose keys are names."""
    objects = [value for value in values if value is not None]
    if not objects or not all(isinstance(value, dict) for value in objects):
        return False
    keys = len({key for value in objects for key in value})
    return 0 < keys <= MAX_KEYS
