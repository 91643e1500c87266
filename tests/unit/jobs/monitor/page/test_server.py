"""The server of the page: what it answers, what it refuses, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sparkhaven.jobs.cli.reading.page import PageCache, serving
from sparkhaven.jobs.monitor.page.document import policy
from sparkhaven.store.errors import CorruptFileError, SettingsError
from tests.support.html_tree import parse
from tests.support.tables.small_tables import SmallTable


class Site:
    """A server of counted pages, with a clock that the test moves."""

    def __init__(self) -> None:
        self.now, self.made, self.takes, self.notes = 0.0, 0, 0.0, list[str]()
        self.error: Exception | None = None
        self.pages = PageCache(self.make, lambda: self.now)
        self.port = 0

    def make(self) -> bytes:
        if self.error is not None:
            raise self.error
        self.made += 1
        self.now += self.takes
        return f"<p>{self.made}</p>".encode()

    def ask(self, method: str = "GET", path: str = "/", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@contextmanager
def opened(site: Site) -> Iterator[Site]:
    with serving(site.pages, "127.0.0.1", 0, site.notes.append) as url:
        site.port = urlsplit(url).port or 0
        assert url == f"http://127.0.0.1:{site.port}/"
        yield site


@pytest.fixture
def site() -> Iterator[Site]:
    with opened(Site()) as found:
        yield found


def test_the_page_has_the_headers_that_keep_it_to_itself(site: Site) -> None:
    status, headers, body = site.ask()
    assert (status, body, headers["Content-Type"]) == (200, b"<p>1</p>", "text/html; charset=utf-8")
    assert headers["Content-Security-Policy"] == f"{policy(live=True)}; frame-ancestors 'none'"
    assert "http" not in policy(live=True) and "unsafe" not in policy(live=True)
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"].strip() == "sparkhaven" and headers["Access-Control-Allow-Origin"] is None
    status, headers, body = site.ask("HEAD")
    assert (status, headers["Content-Length"], body) == (200, "8", b"")


def test_a_page_that_the_client_has_is_not_sent_again(site: Site) -> None:
    tag = site.ask()[1]["ETag"]
    assert site.ask(If_None_Match=tag)[::2] == (304, b"")
    assert site.ask(If_None_Match='"other"')[0] == 200
    assert site.made == 1


@pytest.mark.parametrize(("takes", "due"), [(0.0, 10.0), (3.0, 60.0)])
def test_a_page_is_made_again_when_it_is_due_and_not_for_every_request(takes: float, due: float) -> None:
    site = Site()
    site.takes = takes
    with opened(site):
        assert [site.ask()[2] for _ in range(3)] == [b"<p>1</p>"] * 3
        site.now = takes + due - 0.1
        assert site.ask()[2] == b"<p>1</p>"
        site.now = takes + due
        assert site.ask()[2] == b"<p>2</p>"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"])
def test_other_methods_are_refused(site: Site, method: str) -> None:
    status, headers, _ = site.ask(method)
    assert (status, headers["Allow"], site.made) == (405, "GET, HEAD", 0)
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/x", "//x", "/../etc/passwd", "/%2e%2e/x", "http://127.0.0.1/x"])
def test_there_is_one_page(site: Site, path: str) -> None:
    assert site.ask(path=path)[0] == 404 and site.made == 0
    assert site.ask(path="/?x=1")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1.evil.example:{}", ""])
def test_another_site_whose_name_leads_here_is_refused(site: Site, host: str) -> None:
    status, _, body = site.ask(Host=host.format(site.port))
    assert status == 421 and b"<p>" not in body
    for name in ("localhost", "127.0.0.1"):
        assert site.ask(Host=f"{name}:{site.port}")[0] == 200


def test_a_page_that_cannot_be_made_is_said_and_tried_again(site: Site) -> None:
    site.error = CorruptFileError("<b>damage</b>", where="/db")
    status, headers, body = site.ask()
    assert (status, headers["Content-Type"]) == (503, "text/plain; charset=utf-8") and b"<b>damage</b>" in body
    assert "damage" in site.notes[0]
    site.error = None
    assert site.ask()[0] == 200


def test_an_address_that_is_taken(site: Site) -> None:
    with pytest.raises(SettingsError, match="cannot be served"), serving(site.pages, "127.0.0.1", site.port, print):
        pass


def test_garbage_and_silence_leave_it_answering(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port), 30) as silent:
        with socket.create_connection(("127.0.0.1", site.port), 30) as other:
            other.sendall(b"\x00\xff\r\n\r\n")
            assert other.recv(100)
        assert site.ask()[0] == 200
        assert silent.fileno() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_and_ends_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    small = SmallTable(tmp_path / "db")
    small.add("a", "2026-01-01", {"Size": [1, 2]})
    small.log().close()
    words = ["--root", str(small.root), "page", "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "sparkhaven.jobs.cli.main", *words], text=True, **pipes) as process:  # type: ignore[call-overload]
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        connection.request("GET", "/")
        found = parse(connection.getresponse().read())
        assert found.one("h1").text == f"sparkhaven: {small.root}" and found.one("script").text
        process.send_signal(number)  # with a connection still open
        left, said = process.communicate(timeout=60)
        connection.close()
    assert (process.returncode, left, said) == (0, "", "stopped\n")
