"""Describes a schema file: as one JSON object, as a page of text, and its findings as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkhaven.store.schema.document.column_elements import ImportSource
from sparkhaven.store.schema.document.schema_file import SchemaFile
from sparkhaven.store.schema.findings import SchemaFinding
from sparkhaven.store.types.model import Column, TableSchema


def describe(schema: TableSchema, file: SchemaFile | None = None) -> dict[str, Any]:
    """A schema as plain data for JSON; with its file also imports, findings and the origin.

    Optional parts are there only when they are set.
    """
    origin = None if file is None else file.origin
    shown: dict[str, Any] = {
        "table": schema.full_name,
        "namespace": schema.namespace,
        "name": schema.name,
        "version": schema.version,
        "storage_type": "NestedPartitionedOnDisk" if schema.nested else "SplayedOnDisk",
        "merge_format": schema.merge_format,
        "merge_codec": schema.merge_codec,
        "duplicates": None if schema.dedupe is None else schema.dedupe.words(),
        "key_formula": schema.key_formula,
        "distribution": schema.distribution,
        "copy_of": None if origin is None else origin.schema.full_name,
        "columns": [_column(column) for column in schema.columns],
        "data_indexes": [list(keys) for keys in schema.data_indexes],
        "import_sources": None if file is None else [_source(source) for source in file.imports],
        "rules": [
            {
                "name": rule.name,
                "attributes": rule.attributes,
                "evaluated": True,
                "line": rule.line,
            }
            for rule in schema.rules
        ],
        "findings": None if file is None else [finding.to_json() for finding in file.findings],
    }
    return _stated(shown)


def _stated(shown: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in shown.items() if value is not None}


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": column.id,
        "name": column.name,
        "type": column.type.name,
        "data_type": column.spelling,
        "kind": column.kind.name.lower(),
        "storage": column.storage.value,
        "encoding": column.encoding,
        "files": list(column.files),
        "codec": column.codec,
        "codec_arguments": column.codec_args,
        "width": column.codec_width,
    }
    return _stated(shown)


def _source(source: ImportSource) -> dict[str, Any]:
    columns = [
        _stated({"name": c.name, "source": c.source_name, "default": c.default}) for c in source.columns.values()
    ]
    return _stated({"type": source.type, "name": source.name, "columns": columns})


def schema_text(schema: TableSchema) -> str:
    """The schema as text: the table, its columns, and what is done with it at merge."""
    kind = "nested partitioned" if schema.nested else "splayed"
    lines = [f"{schema.full_name}, {kind} on disk, version {schema.version}"]
    codec = f" ({schema.merge_codec})" if schema.merge_codec else ""
    lines.append(f"merge to {schema.merge_format}{codec}, key formula {schema.key_formula or '(none)'}")
    if schema.distribution is not None:
        lines.append(f"a date's storage partitions are chosen by {schema.distribution}")
    if schema.dedupe is not None:
        lines.append(f"merges leave rows out: {schema.dedupe.words()}")
    lines.append("")
    rows = [("id", "column", "type", "role", "stored as")]
    rows += [(str(c.id), c.name, c.type.name, c.kind.name.lower(), _stored(c)) for c in schema.columns]
    widths = [max(len(row[i]) for row in rows) for i in range(4)] + [0]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if schema.data_indexes:
        lines += ["", "data indexes: " + "; ".join(", ".join(keys) for keys in schema.data_indexes)]
    if schema.rules:
        lines += ["", "rules:"]
        for rule in schema.rules:
            values = " ".join(f'{k}="{v}"' for k, v in rule.attributes.items())
            lines.append(f"  {rule.name} {values}")
    return "\n".join(lines)


def _stored(column: Column) -> str:
    text = {"none": "name of the directory", "symbol": "symbols", "blob": "bytes"}.get(column.storage.value, "values")
    text += f", {column.encoding}" if column.encoding and column.storage.value != "none" else ""
    return text


def findings_text(findings: Sequence[SchemaFinding]) -> str:
    """Findings in file order and a last line that counts them."""
    errors = sum(f.severity == "error" for f in findings)
    count = f"{errors} error{'' if errors == 1 else 's'}, {len(findings) - errors} warning" + (
        "" if len(findings) - errors == 1 else "s"
    )
    return "\n".join([*(finding.text() for finding in findings), count])
