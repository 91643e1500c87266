"""The command ``jars``: fetches what streams need from Maven's repositories beforehand."""

from __future__ import annotations

import os

import typer

from sparkhaven.jobs.context import CliContext
from sparkhaven.jobs.options import Json, Verbose, help_end
from sparkhaven.jobs.session.delta_session import VERSION, delta_jars
from sparkhaven.store.io.fs import Fs


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command(epilog=help_end("jars", usage="the jars cannot be fetched", retry="no space on the disk"))(jars)


def jars(ctx: typer.Context, as_json: Json = False, verbose: Verbose = False) -> None:
    """Fetches the pinned jars of Delta Lake, once.

    Only streams in Spark with a quarantine for bad rows need them. Later runs need no network.
    """
    cli: CliContext = ctx.obj
    paths = [str(path) for path in delta_jars(Fs(), os.environ)]
    cli.result({"delta": VERSION, "paths": paths}, "\n".join(paths))
