"""The command ``schema from-tbl``: a schema file from a table definition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.groups import with_groups
from sparkhaven.jobs.cli.options import help_end
from sparkhaven.jobs.cli.schemas.written_file import NewFile
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.table.definition_file import read_definition
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.schema.document.tbl_schema import lost_in_text, tbl_schema_text


def register(schema: typer.Typer) -> None:
    lines = (
        "schema from-tbl db/Intraday/Nyc13/Flight/EWR/2013-01-01/Flight/table.tbl > Nyc13.Flight.schema",
        "schema from-tbl Trade.tbl --out Equity.Trade.schema",
    )
    usage = "no such file, a file that is there already, an extended layout without --extended"
    bad = "the definition is damaged, or has what a schema cannot say"
    schema.command("from-tbl", epilog=help_end(*lines, bad_data=bad, usage=usage))(with_groups(from_tbl))


def from_tbl(
    ctx: typer.Context,
    written: NewFile,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", parser=local_path, help="A .tbl file, or the directory of a location."),
    ],
    extended: Annotated[
        str | None,
        typer.Option("--extended", metavar="TYPE", help="Layout of a table whose storage type is Extended."),
    ] = None,
) -> None:
    """Writes the schema of a table definition.

    Keeps each column with its role, charset, codec, arguments and width. Key formula, rules and indexes are in no
    definition: add them. The file goes to standard output or to --out.
    """
    cli: CliContext = ctx.obj
    fs = Fs()
    definition, path = read_definition(fs, file)
    text = tbl_schema_text(definition, extended=extended)
    if lost := lost_in_text(definition, text):
        raise SchemaMismatchError(
            "a schema cannot say what this definition has",
            where=path,
            expected="the same columns from the schema as from the definition",
            found="; ".join(difference.words() for difference in lost),
            hint="`sparkhaven inspect FILE` shows the definition",
        )
    record = {"table": f"{definition.namespace}.{definition.name}", "columns": len(definition.columns), "schema": text}
    written.put(cli, fs, text, record)
