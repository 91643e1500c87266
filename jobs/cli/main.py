"""The command line: `sparkhaven [--root DIR] COMMAND`. ``jobs.cli.commands`` has the commands."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.commands import LazyCommands
from sparkhaven.jobs.cli.context import CliContext, quiet_libraries
from sparkhaven.jobs.cli.options import Json, ResultOption, Verbose
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.sync import end_threads

COLLECT_EVERY = 50_000  # objects

app = typer.Typer(
    name="sparkhaven",
    cls=LazyCommands,
    help="Streams into Deephaven's on-disk tables, exactly once. Nightly merge. Snapshot-isolated reads.\n\n"
    "Exit codes: 0 done · 1 bad data found · 2 wrong usage or settings · 3 worth retrying.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

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
        typer.Option(
            "--root",
            envvar="SPARKHAVEN_ROOT",
            metavar="DIR",
            parser=local_path,
            help="Database root, with Intraday, Systems and Schemas.",
        ),
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    result: ResultOption = None,
    logs: Annotated[
        bool,
        typer.Option("--logs/--no-logs", envvar="SPARKHAVEN_LOGS", help="Log to tables of SparkhavenInternal."),
    ] = True,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command; --root, --json, -v and --result may stand behind it, too."""
    if isinstance(ctx.obj, CliContext):
        source = ctx.get_parameter_source("root")
        ctx.obj.root, ctx.obj.logs = root, logs
        ctx.obj.named_root = source is not None and source.name == "COMMANDLINE"


def main() -> None:
    gc.set_threshold(COLLECT_EVERY)  # what imports make stays: a short command would search it sixty times
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nothing here uses
    quiet_libraries(sys.argv)
    try:
        app(prog_name="sparkhaven")
    except SystemExit as ended:
        _end(ended.code)
        raise


def _end(code: object) -> None:
    """Ends the process at once, after what others have registered for its end; returns where a thread still runs.

    Python would first take every module apart, 10 ms for memory that the end of the process frees anyway.
    """
    end_threads()
    if threading.active_count() == 1 and isinstance(code, int):
        gc.freeze()  # else it is searched for cycles
        atexit._run_exitfuncs()
        for output in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the command has reported it already
                output.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
