"""The stream file, from its settings models: one table of keys for each table of the file.

A model's keys are described by the strings that follow them in its source.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sparkhaven.ingest.feeds.kafka import settings as kafka
from sparkhaven.ingest.feeds.kafka.client_settings import KNOWN, OTHERS
from sparkhaven.ingest.feeds.kafka.options import Start
from sparkhaven.ingest.feeds.registry import PLANNED, settings_of
from sparkhaven.ingest.settings import Bytes, Count, MaxPerTrigger, Seconds, SettingsModel
from sparkhaven.jobs.settings import stream_model
from tools.code.syntax_trees import syntax_tree
from tools.docs.markdown import code, table

SECTIONS: tuple[tuple[str, type[SettingsModel]], ...] = (
    ("Top of the file", stream_model.StreamModel),
    *((f'`[feed]` with `type = "{name}"`', settings_of(name)) for name in PLANNED),
    ("`avro` of a Kafka feed", kafka.AvroModel),
    ("`protobuf` of a Kafka feed", kafka.ProtobufModel),
    ("`key` of a Kafka feed", kafka.KeyModel),
    ("`max_per_trigger`", MaxPerTrigger),
    ("`[columns]`, each entry", stream_model.ColumnModel),
    ("`contract`", stream_model.ContractModel),
    ("`[partition]`", stream_model.PartitionModel),
    ("`internal` of `[partition]`", stream_model.InternalModel),
    ("`value` of `[partition]`", stream_model.ValueModel),
    ("`[bad_rows]`", stream_model.BadRowsModel),
    ("`[commit]`", stream_model.CommitModel),
    ("`[logs]`", stream_model.LogsModel),
    ("Top of a file with `[[tables]]`", stream_model.TablesModel),
    ("`[[tables]]`, each entry", stream_model.TableModel),
    ("`where` of `[[tables]]`", stream_model.WhereModel),
)
SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def stream_file_tables() -> str:
    """A section for each table of the file."""
    sections = [f"## {title}\n\n{table(HEAD, _rows(model))}" for title, model in SECTIONS]
    client = ((code(name), code(default) if default else "", words) for name, (default, words) in KNOWN.items())
    others = ((code(other), code(name)) for other, name in OTHERS.items())
    words = "Names are those of Java's consumer, but where it says otherwise. A name that is not here is refused."
    return "\n".join(
        [
            *sections,
            f"## `client` of a Kafka feed\n\n{words}\n\n{table(('name', 'default', 'meaning'), client)}",
            "Names of librdkafka are refused with the name to write:\n",
            table(("librdkafka", "write"), others),
        ]
    )


HEAD = ("key", "value", "default", "meaning")


@cache
def described(model: type[BaseModel]) -> dict[str, str]:
    """What is said of each field of a model, by the name of the field."""
    source = syntax_tree(textwrap.dedent(inspect.getsource(model)))
    body = next(node.body for node in ast.walk(source) if isinstance(node, ast.ClassDef))
    texts = {}
    for field, text in pairwise(body):
        docstring = text.value.value if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(docstring, str):
            texts[field.target.id] = inspect.cleandoc(docstring)
    return texts


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    hints = inspect.get_annotations(model, eval_str=True)
    for name, field in model.model_fields.items():
        key = (field.alias or name).removeprefix("columns.")
        among_columns = (field.alias or name).startswith("columns.")
        shown = f"`[columns] {key}`" if among_columns else code(key)
        yield shown, _kind(hints[name]), _default(field, hints[name]), described(model)[name]


def _kind(hint: Any) -> str:
    if _is(hint, Seconds):
        return "duration"
    if _is(hint, Bytes):
        return "size"
    if hint == Count:
        return "whole number from 1"
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(inner[0])
    if origin is Literal:
        return ", ".join(code(f'"{value}"') for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(part) for part in inner if part is not type(None))
    if origin is list:
        return f"list of {_kind(inner[0])}s"
    if origin is dict:
        return "table by column"
    if hint is Start:
        return "text or table"
    return KINDS.get(hint, "table")


def _is(hint: Any, kind: Any) -> bool:
    return get_origin(hint) is Annotated and get_args(hint)[:2] == get_args(kind)


def _default(field: FieldInfo, hint: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Start):
        return code(f'"{value.kind}"')
    if value is None or value == [] or value == {}:
        return ""
    if _is(hint, Seconds) and isinstance(value, float):
        return code(f'"{_span(value)}"')
    if isinstance(value, MaxPerTrigger):
        return code(_limits(value))
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, str):
        return code(f'"{value}"')
    if isinstance(value, list):
        return ", ".join(code(f'"{item}"') for item in value)
    return code(value) if isinstance(value, int | float) else ""


def _span(seconds: float) -> str:
    size, unit = next((size, unit) for size, unit in SPANS if seconds >= size and not seconds % size)
    return f"{seconds / size:g} {unit}"


def _limits(value: MaxPerTrigger) -> str:
    limits = {name: number for name, number in value.model_dump().items() if number is not None}
    return "{ " + ", ".join(f"{name} = {number:_}" for name, number in limits.items()) + " }"
