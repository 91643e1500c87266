"""Commands on schemas: ``schema check|show``, and those of the other modules of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json, exit_with
from sparkhaven.jobs.cli.options import group, help_end
from sparkhaven.jobs.cli.schemas import deploy as deploy_commands
from sparkhaven.jobs.cli.schemas import from_tbl as from_tbl_command
from sparkhaven.jobs.cli.schemas import infer as infer_commands
from sparkhaven.jobs.cli.schemas import versions as version_commands
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import Deployment, load_deployed
from sparkhaven.store.schema.document.describe import describe, findings_text, schema_text
from sparkhaven.store.schema.document.schema_file import check_schema, load_schema


def register(app: typer.Typer) -> None:
    schema = group("Check, show, infer and deploy schemas.")
    lines = "schema check conf/schemas/Nyc13.Flight.schema", "schema check Nyc13.Flight.schema --against ./demo-db"
    usage = "no such file, or a start would refuse it"
    schema.command(epilog=help_end(*lines, done="no errors", bad_data="a schema has errors", usage=usage))(check)
    lines = "schema show Nyc13.Flight", "schema show my/Nyc13.Flight.schema --json"
    schema.command(epilog=help_end(*lines, usage="no such table or file, or the schema has errors"))(show)
    deploy_commands.register(schema)
    version_commands.register(schema)
    infer_commands.register(schema)
    from_tbl_command.register(schema)
    app.add_typer(schema, name="schema")


def check(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", parser=local_path, help="Schema files.")],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="ROOT", parser=local_path, help="Also say what a start in this database would do."
        ),
    ] = None,
) -> None:
    """Reports errors and warnings of schema files by line."""
    cli: CliContext = ctx.obj
    code = EXIT_DONE
    for path in files:
        findings, _ = check_schema(Fs(), path)
        errors = sum(finding.severity == "error" for finding in findings)
        record = {"file": str(path), "errors": errors, "findings": [finding.to_json() for finding in findings]}
        text = f"{path}: {findings_text(findings)}" if not findings else findings_text(findings)
        if errors:
            code = EXIT_BAD_DATA
        elif against is not None:
            try:
                change = deploy_schema(Fs(), Layout(against.absolute()), path, dry_run=True)
            except SparkhavenError as error:
                cli.result({**record, "error": error_json(error)}, text)
                cli.note(f"sparkhaven: {error}")
                code = code or error.exit_code
                continue
            record |= {"version": change.schema.version, "before": change.before, **change.change.to_json()}
            text += f"\n{_would_do(change)}"
        cli.result(record, text)
    exit_with(code)


def _would_do(change: Deployment) -> str:
    name, version = change.schema.full_name, change.schema.version
    if not change.written:
        return f"{name}: version {version} is deployed already"
    return f"{name}: a start would deploy version {version}, which {change.change.words()}"


def show(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="NS.T|FILE", help="A deployed table, or a schema file.")],
) -> None:
    """Shows columns, indexes and validation rules of a table."""
    cli: CliContext = ctx.obj
    if subject.endswith(".schema") or "/" in subject:
        file = load_schema(Fs(), local_path(subject))
        cli.result(describe(file.schema, file), schema_text(file.schema))
    else:
        schema = load_deployed(TablePlace(Fs(), cli.database(), TableName.parse(subject)))
        cli.result(describe(schema), schema_text(schema))
