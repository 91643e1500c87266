"""Commands on schemas: ``schema check|show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.door import Door, Json, Verbose, example, table
from store.errors import EXIT_BAD_DATA
from store.fs import Fs
from store.layout import TableName
from store.schema.deploy import load_deployed
from store.schema.findings import Finding
from store.schema.model import TableSchema
from store.schema.xmlfile import check_schema, load_schema


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    schema = typer.Typer(help="Schema files: check, show.", no_args_is_help=True, rich_markup_mode=None)
    schema.command(epilog=example("schema check conf/schemas/Nyc13.Flight.schema"))(check)
    schema.command(epilog=example("schema show Nyc13.Flight", "schema show my/Nyc13.Flight.schema --json"))(show)
    app.add_typer(schema, name="schema")


def check(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Schema files.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Every error and warning of schema files, with line and column; exit code 1 if there is an error."""
    door: Door = ctx.obj
    wrong = False
    for path in files:
        findings, _ = check_schema(Fs(), path)
        errors = sum(finding.severity == "error" for finding in findings)
        wrong = wrong or errors > 0
        listed = [_finding(finding) for finding in findings]
        result = {"file": str(path), "errors": errors, "findings": listed}
        text = "\n".join([*map(_sentence, findings), f"{path}: {errors} errors, {len(listed) - errors} warnings"])
        door.result(result, text)
    if wrong:
        raise typer.Exit(EXIT_BAD_DATA)


def _finding(finding: Finding) -> dict[str, Any]:
    names = ("code", "severity", "rule", "file", "line", "column", "element", "expected", "found", "hint")
    return {name: getattr(finding, name) for name in names}


def _sentence(finding: Finding) -> str:
    parts = [("expected", finding.expected), ("found", finding.found), ("to do", finding.hint)]
    tail = "".join(f"\n  {name}: {value}" for name, value in parts if value)
    place = f"{finding.file}:{finding.line}:{finding.column}"
    return f"{place}: {finding.code} {finding.element}: {finding.rule}{tail}"


def show(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="NS.T|FILE", help="A deployed table, or a schema file.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Columns, key formula, indexes and rules of a table."""
    door: Door = ctx.obj
    if what.endswith(".schema") or "/" in what:
        schema = load_schema(Fs(), Path(what)).schema
    else:
        schema = load_deployed(Fs(), door.database(), TableName.parse(what))
    described = describe(schema)
    header = ["id", "name", "type", "kind", "storage", "encoding"]

    def people() -> None:
        print(f"{schema.full_name}, version {schema.version}, merged as {schema.merge_format}")
        table(header, [[column[key] for key in header] for column in described["columns"]])
        print(f"key formula: {schema.key_formula or 'none'}")
        for rule in described["rules"]:
            print(f"rule {rule['name']}: " + ", ".join(f"{key}={value}" for key, value in rule["attributes"].items()))

    door.result(described, people)


def describe(schema: TableSchema) -> dict[str, Any]:
    """A schema as plain data."""
    return {
        "table": schema.full_name,
        "version": schema.version,
        "nested": schema.nested,
        "merge_format": schema.merge_format,
        "key_formula": schema.key_formula,
        "data_indexes": [list(names) for names in schema.data_indexes],
        "columns": [
            {
                "id": column.id,
                "name": column.name,
                "type": column.type.name,
                "kind": column.kind.name.lower(),
                "storage": column.storage.value,
                "encoding": column.encoding,
            }
            for column in schema.columns
        ],
        "rules": [{"name": rule.name, "attributes": rule.attributes} for rule in schema.rules],
    }
