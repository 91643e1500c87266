"""The command ``jars``: what streams may need from Maven's repositories, fetched beforehand."""

from __future__ import annotations

import os

import typer

from jobs.context import CliContext, Json, Verbose, example
from jobs.session.delta_session import VERSION, delta_jars
from store.io.fs import Fs


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command(epilog=example("jars"))(jars)


def jars(ctx: typer.Context, as_json: Json = False, verbose: Verbose = False) -> None:
    """Fetches the pinned jars once; later nothing needs a network. Only streams that set bad rows aside need any."""
    cli: CliContext = ctx.obj
    paths = [str(path) for path in delta_jars(Fs(), os.environ)]
    cli.result({"delta": VERSION, "paths": paths}, "\n".join(paths))
