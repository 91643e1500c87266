"""The command ``page``: the operations page, served or written to a file."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, stopped_by_signals
from sparkhaven.jobs.cli.options import help_end
from sparkhaven.jobs.monitor.page.collect import FactCollector, PageScope
from sparkhaven.jobs.monitor.page.document import page as document
from sparkhaven.jobs.monitor.page.pictures import Drawings, require_library
from sparkhaven.jobs.monitor.page.server import LOOPBACK, PageCache, own_hosts, serving
from sparkhaven.jobs.settings.stream_file import load_streams
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed

PORT, HOURS = 8090, 24


def register(app: typer.Typer) -> None:
    lines = "page", "page Nyc13.Flight --hours 48 --out page.html"
    done = "written, or stopped by SIGTERM or Ctrl-C"
    usage = "no drawing library installed, no such table, an address that is taken"
    app.command(epilog=help_end(*lines, done=done, bad_data="a damaged schema", usage=usage))(page)


def page(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NS.T]... [STREAM.toml]...",
            help="Default: the tables with the newest epochs. Stream files: also ask their sources for lag.",
        ),
    ] = None,
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port. 0: any free port.")] = PORT,
    hours: Annotated[int, typer.Option(metavar="N", min=1, max=8784, help="Hours of epochs to show.")] = HOURS,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", parser=local_path, help="Write the page to this file, and serve nothing."),
    ] = None,
) -> None:
    """Serves the operations page, or writes it to a file.

    Epochs of the last hours, dates by sources, symbol tables, bytes and waste, quarantine, errors, and what to do next.
    Reads commit logs, records and listings, no column. A file needs no network to be opened.

    Whoever reaches the address sees names, paths and counts of all tables. There is no login.
    """
    cli: CliContext = ctx.obj
    layout, fs = cli.database(), Fs()
    if out is not None and any(_is_given(ctx, name) for name in ("bind", "port")):
        raise SettingsError(
            "--out is given with an option of the server", expected="--out, or --bind and --port", found="both"
        )
    scope = _asked(fs, layout, words or [], hours)
    collector = FactCollector(fs, layout, scope, time.time, socket.gethostname(), os.environ)
    require_library()
    drawings = Drawings()
    if out is not None:
        write(fs, collector, drawings, out, cli)
        return
    pages = PageCache(lambda: document(collector.collect(), drawings, live=True), time.monotonic)
    stop = stopped_by_signals()
    with serving(pages, bind, port, cli.note) as url:
        pages.newest()
        cli.result({"url": url}, f"the page is at {url}")
        if own_hosts(bind) is None:
            cli.note(f"--bind {bind}: whoever reaches it sees names, paths and counts of all tables. There is no login")
        stop.wait()
    cli.note("stopped")


def write(fs: Fs, collector: FactCollector, drawings: Drawings, out: Path, cli: CliContext) -> None:
    if not out.absolute().parent.is_dir():
        raise SettingsError("no such directory", where=out.absolute().parent, hint="create it first")
    if out.is_dir():
        raise SettingsError("--out names a directory", where=out, expected="the name of a file, like page.html")
    facts = collector.collect()
    text = document(facts, drawings)
    fs.replace(out.absolute(), text, sync=False)
    wrong = sum(finding.state == "wrong" for finding in facts.findings)
    notes = sum(finding.state == "note" for finding in facts.findings)
    record = {"out": str(out), "bytes": len(text), "tables": [table_facts.name for table_facts in facts.tables]}
    cli.result(
        {**record, "wrong": wrong, "notes": notes},
        f"{out}: {counted(len(facts.tables), 'table')}, {counted(len(text), 'byte')}, {wrong} wrong,"
        f" {counted(notes, 'note')}",
    )


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _asked(fs: Fs, layout: Layout, words: list[str], hours: float) -> PageScope:
    """Tables and stream files of the command line. TableNotFoundError, and the first error of a stream file."""
    files = [local_path(word) for word in words if word.endswith(".toml")]
    tables = [TableName.parse(word) for word in words if not word.endswith(".toml")]
    feeds, unread = load_streams(files)
    if unread:
        raise unread[0].error
    for name in (*tables, *(feed.table for feed in feeds)):
        load_deployed(TablePlace(fs, layout, name))
    return PageScope(tuple(tables), tuple(feeds), hours)
