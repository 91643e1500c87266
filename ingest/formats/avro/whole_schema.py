"""An Avro schema and the named types that it refers to, as one schema that needs nothing else.

Names are made full (``namespace.name``) everywhere, and each referenced type is defined at the first place that uses
it, as the specification asks for a single document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})

Definitions = dict[str, Any]  # full name -> schema of a named type, with full names inside


def definitions_in(schema: Any) -> Definitions:
    """Every named type that a schema defines, by full name. KeyError or TypeError if it is no schema."""
    definitions: Definitions = {}
    _walk(schema, "", {}, set(), definitions)
    return definitions


def whole(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with the definitions that it uses inside. KeyError or TypeError if it is no schema."""
    return _walk(schema, "", definitions, set(), {})


def _walk(
    schema: Any, namespace: str, definitions: Mapping[str, Any], defined: set[str], collected: Definitions
) -> Any:
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return schema
        name = _full(schema, namespace)
        if name in defined or name not in definitions:
            return name
        return _walk(definitions[name], "", definitions, defined, collected)
    if isinstance(schema, list):
        return [_walk(branch, namespace, definitions, defined, collected) for branch in schema]
    kind = schema["type"]
    if not isinstance(kind, str) or (kind not in NAMED and kind not in ("array", "map", *PRIMITIVES)):
        return {**schema, "type": _walk(kind, namespace, definitions, defined, collected)}
    resolved = dict(schema)
    for inner in ("items", "values"):
        if inner in resolved:
            resolved[inner] = _walk(resolved[inner], namespace, definitions, defined, collected)
    if kind in NAMED:
        name = _full(schema["name"], schema.get("namespace", namespace))
        if name in defined:
            return name
        defined.add(name)
        resolved |= {"name": name, "namespace": name.rpartition(".")[0]}
        if "fields" in schema:
            own = resolved["namespace"]
            resolved["fields"] = [
                {**field, "type": _walk(field["type"], own, definitions, defined, collected)}
                for field in schema["fields"]
            ]
        collected[name] = resolved
    return resolved


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
