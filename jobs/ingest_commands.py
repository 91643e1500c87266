"""The command ``ingest``: streams from their files' settings to running queries, one process for all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from jobs.door import Door, DryRun, Json, Verbose, example
from jobs.stream_file import StreamSettings, load_stream_file
from store.errors import SettingsError
from store.fs import Fs


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command(epilog=example("ingest conf/streams/flights.toml --once"))(ingest)


def ingest(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE.toml", help="Stream files; one stream each.")],
    once: Annotated[bool, typer.Option("--once", help="Take what is there and end.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Tasks at once; all cores unless told.")] = None,
    memory: Annotated[str, typer.Option(help="Memory of Spark's driver; data never passes through it.")] = "1g",
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Runs streams: takes new feed files as they appear, each exactly once. SIGTERM ends after the batch."""
    door: Door = ctx.obj
    door.layout()
    load_streams(files)


def load_streams(files: list[Path]) -> list[StreamSettings]:
    """The settings of every file; two files of one stream are a SettingsError."""
    found: dict[tuple[str, str], StreamSettings] = {}
    for path in files:
        settings = load_stream_file(Fs(), path, os.environ)
        key = settings.spec.table, settings.spec.stream
        if key in found:
            raise SettingsError(
                f"two files describe stream {settings.spec.stream} of {settings.spec.table}",
                where=path,
                found=f"the same in {found[key].file}",
                hint="give each stream its own name",
            )
        found[key] = settings
    return list(found.values())
