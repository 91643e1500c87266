"""Serves the page over HTTP: one document, GET and HEAD only, default address: loopback."""

from __future__ import annotations

import ipaddress
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from typing import Any

from sparkhaven.jobs.monitor.page.document import policy
from sparkhaven.store.errors import SettingsError, SparkhavenError

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
