"""The command ``page``: the operations page, written to a file, or served over HTTP.

The server has one document, for GET and HEAD only. Its default address is loopback.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, stopped_by_signals
from sparkhaven.jobs.cli.options import help_end
from sparkhaven.jobs.monitor.page.collect import FactCollector, PageScope
from sparkhaven.jobs.monitor.page.document import page as document
from sparkhaven.jobs.monitor.page.document import policy
from sparkhaven.jobs.monitor.page.pictures import Drawings, require_library
from sparkhaven.jobs.settings.stream_file import load_streams
from sparkhaven.store.errors import SettingsError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed

PORT, HOURS = 8090, 24
LOOPBACK = "127.0.0.1"
LEAST_S, SHARE = 10.0, 20
"""A page is made again after ``LEAST_S`` seconds, or ``SHARE`` times what it took to make it."""
_PORT = re.compile(r":[0-9]*\Z")
HEADERS = {
    "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(slots=True)
class PageCache:
    """The newest page, made again when it is asked for and due. ``clock`` is monotonic, in seconds."""

    make: Callable[[], bytes]
    clock: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _made: tuple[bytes, str] | None = None
    _due: float = 0.0

    def newest(self) -> tuple[bytes, str]:
        """The page and its ETag; raises what making one raises."""
        with self._lock:
            began = self.clock()
            if self._made is None or began >= self._due:
                page = self.make()
                self._made = page, f'"{sha256(page).hexdigest()[:32]}"'
                ended = self.clock()
                self._due = ended + max(LEAST_S, SHARE * (ended - began))
            return self._made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], pages: PageCache, note: Callable[[str], None]) -> None:
        if ":" in address[0]:
            self.address_family = AF_INET6
        self.pages, self.note = pages, note
        super().__init__(address, _Handler)
        self.hosts = own_hosts(address[0])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "sparkhaven", ""
    protocol_version = "HTTP/1.0"  # a connection ends with its answer, and with it the thread
    timeout = 10

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def __getattr__(self, name: str) -> Any:
        """Every other method of HTTP is refused."""
        if name.startswith("do_"):
            return lambda: self._say(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", Allow="GET, HEAD")
        raise AttributeError(name)

    def _answer(self, *, with_body: bool) -> None:
        if not self._host_is_ours():
            self._say(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name", with_body=with_body)
            return
        if self.path.partition("?")[0] != "/":
            self._say(HTTPStatus.NOT_FOUND, "the page is at /", with_body=with_body)
            return
        try:
            page, tag = self.server.pages.newest()
        except (SparkhavenError, OSError) as error:
            self.server.note(f"the page cannot be made: {error}")
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, f"the page cannot be made: {error}", with_body=with_body)
            return
        if tag in self.headers.get("If-None-Match", ""):
            self._head(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            return
        kind = "text/html; charset=utf-8"
        self._head(HTTPStatus.OK, {"ETag": tag, "Content-Type": kind, "Content-Length": str(len(page))})
        if with_body:
            self.wfile.write(page)

    def _host_is_ours(self) -> bool:
        """Whether the request names this server: a page of another site whose name leads here is refused."""
        hosts = self.server.hosts
        return hosts is None or _PORT.sub("", self.headers.get("Host", "")) in hosts

    def _say(self, status: HTTPStatus, text: str, *, with_body: bool = True, **headers: str) -> None:
        body = f"{text}\n".encode("utf-8", "replace")
        kind = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        self._head(status, {**kind, **headers})
        if with_body and self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in {**HEADERS, **headers}.items():
            self.send_header(name, text)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


def own_hosts(address: str) -> frozenset[str] | None:
    """Names in the ``Host`` header under which a loopback address is reached; None: any, for other addresses."""
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = address == "localhost"
    return frozenset({"localhost", "127.0.0.1", "[::1]", address}) if loopback else None


@contextmanager
def serving(pages: PageCache, address: str, port: int, note: Callable[[str], None]) -> Iterator[str]:
    """Serves while it is open; yields the URL. ``port`` 0: any free one. SettingsError for an address that is taken."""
    try:
        server = _Server((address, port), pages, note)
    except OSError as error:
        raise SettingsError(
            "the page cannot be served at this address",
            where=f"{address}:{port}",
            found=error.strerror or error,
            hint="choose another --port (0: any free one), or another --bind",
        ) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        host = f"[{address}]" if ":" in address else address
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
