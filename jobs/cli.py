"""The command line: `sparkhaven [--root DIR] COMMAND`. Here commands are only wired; each group has its module."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from jobs import (
    check_commands,
    checkpoint_commands,
    epoch_commands,
    ingest_commands,
    jar_commands,
    merge_commands,
    merge_status,
    partition_commands,
    quarantine_commands,
    read_commands,
    removal_commands,
    schema_commands,
    validation_commands,
)
from jobs.doctor import command as doctor_command
from jobs.door import Commands, Door, quiet_libraries

app = typer.Typer(
    name="sparkhaven",
    cls=Commands,
    help="Streams into Deephaven's on-disk tables, exactly once; nightly merge; readers that see whole epochs.\n\n"
    "Exit codes: 0 done, 1 bad data found, 2 wrong usage or settings, 3 worth retrying.",
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
        typer.Option("--root", envvar="SPARKHAVEN_ROOT", help="Database root: Intraday, Systems and Schemas in it."),
    ] = None,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options of every command."""
    if isinstance(ctx.obj, Door):
        ctx.obj.root = root


for group in (
    ingest_commands,
    merge_commands,
    validation_commands,
    removal_commands,
    merge_status,
    read_commands,
    epoch_commands,
    quarantine_commands,
    jar_commands,
    doctor_command,
    check_commands,
    checkpoint_commands,
    schema_commands,
    partition_commands,
):
    group.register(app)


def main() -> None:
    """Entry of the console script."""
    quiet_libraries(sys.argv)
    app(prog_name="sparkhaven")


if __name__ == "__main__":
    main()
