"""The command line: `sparkhaven [--root DIR] COMMAND`.

``COMMANDS`` has the commands by name: the module that has each, and its summary. A call imports the module of its
command only.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from sparkhaven.jobs.cli.context import CliContext, Commands, quiet_libraries
from sparkhaven.jobs.cli.options import CommandLine, Json, ResultOption, RootOption, Verbose
from sparkhaven.store.gc_pause import gc_paused
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.sync import end_threads

COMMANDS: dict[str, tuple[str, str]] = {
    "ingest": ("sparkhaven.jobs.cli.ingest", "Runs streams: ingests new input exactly once."),
    "merge": ("sparkhaven.jobs.cli.history.merge", "Merges dates from intraday into sorted, grouped history."),
    "validate": ("sparkhaven.jobs.cli.history.validation", "Validates merged dates against counts, digests and rules."),
    "truncate": ("sparkhaven.jobs.cli.history.validation", "Empties the intraday locations of merged dates."),
    "delete": ("sparkhaven.jobs.cli.history.validation", "Removes the files of truncated dates."),
    "rewrite-column": ("sparkhaven.jobs.cli.history.rewrite", "Rewrites columns of history, as new generations."),
    "delete-rows": ("sparkhaven.jobs.cli.history.rewrite", "Deletes rows that match, from intraday and history."),
    "export": ("sparkhaven.jobs.cli.copies", "Exports a snapshot as a tree of Parquet files."),
    "import": (
        "sparkhaven.jobs.cli.history.import_rows",
        "Imports files, a Delta table or a SELECT into history.",
    ),
    "snapshot": ("sparkhaven.jobs.cli.copies", "Copies tables while streams, merges and readers run."),
    "restore": ("sparkhaven.jobs.cli.copies", "Puts tables of a snapshot into the database root."),
    "mirror": ("sparkhaven.jobs.cli.copies", "Ships what is committed to a mirror of a database."),
    "metadata": (
        "sparkhaven.jobs.cli.history.metadata",
        "List, validate and update location indexes and Locations tables.",
    ),
    "clean": ("sparkhaven.jobs.cli.history.status", "Removes replaced generations of history."),
    "read": ("sparkhaven.jobs.cli.reading.read", "Reads rows of one snapshot of a table."),
    "sql": ("sparkhaven.jobs.cli.reading.read", "Runs a SELECT over snapshots of tables."),
    "serve": ("sparkhaven.jobs.cli.reading.serve", "Serves tables live, by a Deephaven engine."),
    "page": ("sparkhaven.jobs.cli.reading.page", "Serves the operations page, or writes it to a file."),
    "tables": ("sparkhaven.jobs.cli.reading.stats", "Lists tables with rows, dates and epochs."),
    "stats": ("sparkhaven.jobs.cli.reading.stats", "Reports rows, bytes, epochs and positions of tables."),
    "symbols": ("sparkhaven.jobs.cli.reading.stats", "Reports symbol tables: texts, duplicates, bytes, advice."),
    "epochs": ("sparkhaven.jobs.cli.streams.streams", "List, show, roll back and undo epochs of a stream."),
    "streams": ("sparkhaven.jobs.cli.streams.streams", "List streams, and remove those of which no row is left."),
    "recover": ("sparkhaven.jobs.cli.streams.recover", "Runs crash recovery only, without ingest."),
    "quarantine": ("sparkhaven.jobs.cli.streams.quarantine", "List, requeue and drop rows that could not be stored."),
    "jars": ("sparkhaven.jobs.cli.setup", "Fetches Delta's jars, so that Spark reads the quarantine."),
    "class-archive": (
        "sparkhaven.jobs.cli.setup",
        "Creates a class archive, with which Spark starts faster.",
    ),
    "doctor": ("sparkhaven.jobs.cli.setup", "Checks the database and names the next command to run."),
    "verify": ("sparkhaven.jobs.cli.reading.checks", "Checks tables for damage, read-only."),
    "scrub": ("sparkhaven.jobs.cli.reading.scrub", "Reads all committed bytes again, at a bounded rate."),
    "compare": ("sparkhaven.jobs.cli.reading.checks", "Compares tables with those of another root, by digests."),
    "inspect": ("sparkhaven.jobs.cli.reading.checks", "Decodes single files, reports corruption by byte offset."),
    "checkpoint": ("sparkhaven.jobs.cli.streams.recover", "Repair Spark's checkpoint of a query."),
    "schema": ("sparkhaven.jobs.cli.schemas.schema", "Check, show, infer and deploy schemas."),
    "dates": ("sparkhaven.jobs.cli.history.dates", "Move, detach, attach, adopt, drop and expire dates of history."),
    "drop": ("sparkhaven.jobs.cli.history.status", "Drops a table: rows, history, schema, quarantine and logs."),
    "partitions": ("sparkhaven.jobs.cli.history.partitions", "List, add and roll storage partitions of history."),
}
COLLECT_EVERY = 50_000  # objects


class LazyCommands(Commands):
    """The whole command line; its help needs the table above and nothing else."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = OnUse()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


class OnUse(Mapping[str, Any]):
    """The commands, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _registered(COMMANDS[name][0])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _registered(path: str) -> Mapping[str, Any]:
    app = CommandLine(rich_markup_mode=None)
    with gc_paused():  # what is imported is live
        import_module(path).register(app)
    gc.freeze()  # what was imported stays: no collection looks at it again
    commands = get_group(app).commands
    for command in commands.values():
        _add_shared(command)
    return commands


def _add_shared(command: Any) -> None:
    """Lets ``--json``, ``--verbose``, ``--root`` and ``--result`` stand behind a command, and behind those below it."""
    command.params.extend(_shared_options())
    for inner in getattr(command, "commands", {}).values():
        _add_shared(inner)


@cache
def _shared_options() -> tuple[Any, ...]:
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        as_json: Json = False, verbose: Verbose = False, root: RootOption = None, result: ResultOption = None
    ) -> None:
        pass

    options = tuple(get_command(app).params)
    for option in options:
        option.expose_value = False
    return options


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
