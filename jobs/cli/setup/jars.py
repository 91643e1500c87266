"""The command ``jars``: fetches Delta's jars for programs that read the quarantine with Spark."""

from __future__ import annotations

import os

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import help_end
from sparkhaven.jobs.session.jars import DELTA_VERSION, delta_jars
from sparkhaven.store.io.fs import Fs


def register(app: typer.Typer) -> None:
    app.command(epilog=help_end("jars", usage="the jars cannot be fetched", retry="no space on the disk"))(jars)


def jars(ctx: typer.Context) -> None:
    """Fetches Delta's jars, so that Spark reads the quarantine.

    They are those for the Spark that is installed, fetched once. No stream needs them.
    """
    cli: CliContext = ctx.obj
    paths = [str(path) for path in delta_jars(Fs(), os.environ)]
    cli.result({"delta": DELTA_VERSION, "paths": paths}, "\n".join(paths))
