"""Commands on schemas: ``schema check|show``, and ``infer|new`` from ``jobs.cli.schemas.infer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.schemas import infer as infer_commands
from jobs.context import CliContext
from jobs.options import Json, Verbose, group, help_end
from store.errors import EXIT_BAD_DATA
from store.io.fs import Fs
from store.io.local_path import local_path
from store.layout import TableName
from store.schema.deployed.deploy import load_deployed
from store.schema.document.describe import describe, findings_text, schema_text
from store.schema.document.xmlfile import check_schema, load_schema


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    schema = group("Check, show and infer schemas.")
    line = "schema check conf/schemas/Nyc13.Flight.schema"
    schema.command(epilog=help_end(line, done="no errors", bad_data="a schema has errors", usage="no such file"))(check)
    lines = "schema show Nyc13.Flight", "schema show my/Nyc13.Flight.schema --json"
    schema.command(epilog=help_end(*lines, usage="no such table or file, or the schema has errors"))(show)
    infer_commands.register(schema)
    app.add_typer(schema, name="schema")


def check(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", parser=local_path, help="Schema files.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Reports errors and warnings of schema files by line."""
    cli: CliContext = ctx.obj
    wrong = False
    for path in files:
        findings, _ = check_schema(Fs(), path)
        errors = sum(finding.severity == "error" for finding in findings)
        wrong = wrong or errors > 0
        result = {"file": str(path), "errors": errors, "findings": [finding.to_json() for finding in findings]}
        cli.result(result, f"{path}: {findings_text(findings)}" if not findings else findings_text(findings))
    if wrong:
        raise typer.Exit(EXIT_BAD_DATA)


def show(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="NS.T|FILE", help="A deployed table, or a schema file.")],
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Shows columns, indexes and validation rules of a table."""
    cli: CliContext = ctx.obj
    if what.endswith(".schema") or "/" in what:
        file = load_schema(Fs(), local_path(what))
        cli.result(describe(file.schema, file), schema_text(file.schema))
    else:
        schema = load_deployed(Fs(), cli.database(), TableName.parse(what))
        cli.result(describe(schema), schema_text(schema))
