"""The commands by name: the module that has each, and its summary. A call imports the module of its command only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group

from jobs.context import Commands

COMMANDS: dict[str, tuple[str, str]] = {
    "ingest": ("jobs.cli.ingest", "Runs streams: ingests new input exactly once."),
    "merge": ("jobs.cli.merge", "Merges dates from intraday into sorted, grouped history."),
    "validate": ("jobs.cli.validation", "Validates merged dates against counts, digests and rules."),
    "truncate": ("jobs.cli.removal", "Empties the intraday locations of merged dates."),
    "delete": ("jobs.cli.removal", "Removes the files of truncated dates."),
    "clean": ("jobs.operations.merge_status", "Removes replaced generations of history."),
    "read": ("jobs.cli.read", "Reads rows of one snapshot of a table."),
    "sql": ("jobs.cli.sql", "Runs a SELECT over snapshots of tables."),
    "tables": ("jobs.cli.stats", "Lists tables with rows, dates and epochs."),
    "stats": ("jobs.cli.stats", "Reports rows, bytes, epochs and positions of tables."),
    "epochs": ("jobs.cli.epochs", "List, show and roll back epochs of a stream."),
    "recover": ("jobs.cli.recover", "Runs crash recovery only, without ingest."),
    "quarantine": ("jobs.cli.quarantine", "List, requeue and drop rows that could not be stored."),
    "jars": ("jobs.cli.jars", "Fetches the pinned jars of Delta Lake, once."),
    "class-archive": ("jobs.cli.class_archive", "Creates a class archive, with which Spark starts faster."),
    "doctor": ("jobs.doctor.command", "Checks the database and names the next command to run."),
    "verify": ("jobs.cli.checks", "Checks tables for damage; changes nothing."),
    "inspect": ("jobs.cli.checks", "Decodes single files, reports corruption by byte offset."),
    "checkpoint": ("jobs.cli.checkpoint", "Repair Spark's checkpoint of a query."),
    "schema": ("jobs.cli.schema", "Check, show and infer schemas."),
    "partitions": ("jobs.cli.partitions", "List and add storage partitions of history."),
}


class LazyCommands(Commands):
    """The whole command line; its help needs the table above and nothing else."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = OnUse()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the way of a row."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The table in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@cache
def _registered(path: str) -> Mapping[str, Any]:
    """The commands of a module."""
    app = typer.Typer(rich_markup_mode=None)
    import_module(path).register(app)
    return get_group(app).commands


class OnUse(Mapping[str, Any]):
    """The commands, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _registered(COMMANDS[name][0])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)
