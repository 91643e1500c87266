"""The command line: `sparkhaven [--root DIR] COMMAND`. Only registration; each group of commands has its module."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli import checkpoint as checkpoint_commands
from jobs.cli import checks as check_commands
from jobs.cli import class_archive as archive_commands
from jobs.cli import epochs as epoch_commands
from jobs.cli import ingest as ingest_commands
from jobs.cli import jars as jar_commands
from jobs.cli import merge as merge_commands
from jobs.cli import partitions as partition_commands
from jobs.cli import quarantine as quarantine_commands
from jobs.cli import read as read_commands
from jobs.cli import recover as recover_commands
from jobs.cli import removal as removal_commands
from jobs.cli import schema as schema_commands
from jobs.cli import validation as validation_commands
from jobs.context import CliContext, Commands, quiet_libraries
from jobs.doctor import command as doctor_command
from jobs.operations import merge_status

app = typer.Typer(
    name="sparkhaven",
    cls=Commands,
    help="Streams into Deephaven's on-disk tables, exactly once; nightly merge; snapshot-isolated reads.\n\n"
    "Exit codes: 0 done · 1 bad data found · 2 wrong usage or settings · 3 worth retrying.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        try:
            print(f"sparkhaven {version('sparkhaven')}")
        except PackageNotFoundError:  # run from a checkout that is not installed
            print("sparkhaven (not installed)")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option("--root", envvar="SPARKHAVEN_ROOT", help="Database root, with Intraday, Systems and Schemas."),
    ] = None,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""
    if isinstance(ctx.obj, CliContext):
        ctx.obj.root = root


for group in (
    ingest_commands,
    merge_commands,
    validation_commands,
    removal_commands,
    merge_status,
    read_commands,
    epoch_commands,
    recover_commands,
    quarantine_commands,
    jar_commands,
    archive_commands,
    doctor_command,
    check_commands,
    checkpoint_commands,
    schema_commands,
    partition_commands,
):
    group.register(app)


def main() -> None:
    """Entry point of the console script."""
    quiet_libraries(sys.argv)
    app(prog_name="sparkhaven")


if __name__ == "__main__":
    main()
