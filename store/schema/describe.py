"""A schema file told: as one JSON object, as a page of text, and the findings of a check as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.schema.findings import Finding
from store.schema.model import Column
from store.schema.rules import RULE_SPECS
from store.schema.sources import ImportSource
from store.schema.xmlfile import SchemaFile


def describe(file: SchemaFile) -> dict[str, Any]:
    """Everything that a schema file says, as plain data for JSON; optional parts are there only when they are set."""
    schema = file.schema
    copied = None if file.origin is None else file.origin.schema.full_name
    told: dict[str, Any] = {
        "table": schema.full_name,
        "namespace": schema.namespace,
        "name": schema.name,
        "storage_type": "NestedPartitionedOnDisk" if schema.nested else "SplayedOnDisk",
        "merge_format": schema.merge_format,
        "merge_codec": schema.merge_codec,
        "key_formula": schema.key_formula,
        "copy_of": copied,
        "columns": [_column(column) for column in schema.columns],
        "data_indexes": [list(keys) for keys in schema.data_indexes],
        "import_sources": [_source(source) for source in file.imports],
        "rules": [
            {
                "name": rule.name,
                "attributes": rule.attributes,
                "evaluated": RULE_SPECS[rule.name].evaluated,
                "line": rule.line,
            }
            for rule in schema.rules
        ],
        "findings": [finding.to_json() for finding in file.findings],
    }
    return {key: value for key, value in told.items() if value is not None}


def _column(column: Column) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": column.name,
        "type": column.type.name,
        "data_type": column.spelling,
        "kind": column.kind.name.capitalize(),
        "storage": column.storage.value,
        "encoding": column.encoding,
        "files": list(column.files),
        "codec": column.codec,
        "codec_arguments": column.codec_args,
        "width": column.codec_width,
        "stored": column.type.stored,
    }
    return {key: value for key, value in told.items() if value is not None}


def _source(source: ImportSource) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": source.type,
        "name": source.name,
        "columns": [
            {k: v for k, v in (("name", c.name), ("source", c.source_name), ("default", c.default)) if v is not None}
            for c in source.columns.values()
        ],
    }
    return {key: value for key, value in told.items() if value is not None}


def schema_text(file: SchemaFile) -> str:
    """The schema for people: the table, its columns, and what is done with it at merge."""
    schema = file.schema
    lines = [f"{schema.full_name}, {'nested partitioned' if schema.nested else 'splayed'} on disk"]
    if file.origin is not None:
        lines.append(f"copy of {file.origin.schema.full_name}")
    codec = f" ({schema.merge_codec})" if schema.merge_codec else ""
    lines.append(f"merge to {schema.merge_format}{codec}, key formula {schema.key_formula or '(none)'}")
    lines.append("")
    rows = [("column", "type", "role", "stored as")]
    rows += [(c.name, c.type.name, c.kind.name.capitalize(), _stored(c)) for c in schema.columns]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines += [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])) for row in rows
    ]
    if schema.data_indexes:
        lines += ["", "data indexes: " + "; ".join(", ".join(keys) for keys in schema.data_indexes)]
    if schema.rules:
        lines += ["", "rules:"]
        for rule in schema.rules:
            values = " ".join(f'{k}="{v}"' for k, v in rule.attributes.items())
            later = "" if RULE_SPECS[rule.name].evaluated else "  (not evaluated by this release)"
            lines.append(f"  {rule.name} {values}{later}")
    return "\n".join(lines)


def _stored(column: Column) -> str:
    text = {"none": "name of the directory", "symbol": "symbols", "blob": "bytes"}.get(column.storage.value, "values")
    text += f", {column.encoding}" if column.encoding and column.storage.value != "none" else ""
    return text if column.type.stored else f"{text} (not by this release)"


def findings_text(findings: Sequence[Finding]) -> str:
    """Findings in file order and a last line that counts them."""
    errors = sum(f.severity == "error" for f in findings)
    count = f"{errors} error{'' if errors == 1 else 's'}, {len(findings) - errors} warning" + (
        "" if len(findings) - errors == 1 else "s"
    )
    return "\n".join([*(finding.text() for finding in findings), count])
