"""A root served by the real command, and a client of it; both run in the environment of `make setup-deephaven`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pyarrow as pa
import pytest

from tests.support.places import REPOSITORY
from tests.support.processes import wait_until

PYTHON = REPOSITORY / ".venv-deephaven" / "bin" / "python"
PROGRAM = Path(sys.executable).with_name("sparkhaven")
PATIENCE = 120.0
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}  # an engine of a test ends before well compiled code pays


class ClientError(Exception):
    """What pydeephaven has raised."""


class Served:
    """A served root with one client."""

    def __init__(self, root: Path, started: dict[str, Any], server: subprocess.Popen[str], notes: Path) -> None:
        self.root, self.started, self.server, self._notes = root, started, server, notes
        at = urlsplit(started["url"])
        words = [
            str(PYTHON),
            "-P",
            str(REPOSITORY / "tests" / "deephaven" / "client.py"),
            str(at.hostname),
            str(at.port),
        ]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._client = subprocess.Popen([*words, started["key"]], **pipes)
        assert self._answer() == "ready"

    @property
    def notes(self) -> str:
        """What the server has written to standard error."""
        return self._notes.read_text(encoding="utf-8")

    def ask(self, do: str, **arguments: Any) -> Any:
        """The result of a method of the client; ClientError: it has raised one."""
        assert self._client.stdin is not None
        print(json.dumps({"do": do, **arguments}), file=self._client.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._client.stdout is not None
        if not select.select([self._client.stdout], [], [], 2 * PATIENCE)[0]:
            self._client.send_signal(signal.SIGUSR1)
            self._client.communicate(timeout=PATIENCE)
            raise AssertionError(f"no answer of the client, whose stack is above\n{self.notes}")
        line = self._client.stdout.readline()
        assert line, f"the client ended with {self._client.wait()}\n{self.notes}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["result"]

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an HTTP GET."""
        try:
            with urlopen(f"{self.started['url']}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode("utf-8")
        except HTTPError as error:
            with error:
                return error.code, error.read().decode("utf-8", "replace")

    def rows(self, name: str, **arguments: Any) -> pa.Table:
        """A snapshot of an attached table."""
        with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
            self.ask("rows", name=name, path=file.name, **arguments)
            return pa.ipc.open_file(file.name).read_all()

    def wait(self, name: str, rows: int) -> pa.Table:
        """Snapshots until one has so many rows."""
        found = pa.table({})

        def holds() -> bool:
            nonlocal found
            found = self.rows(name)
            return bool(found.num_rows == rows)

        wait_until(holds, PATIENCE, lambda: f"{found.num_rows} rows of {rows}\n{self.notes}")
        return found

    def wait_count(self, name: str, rows: int, variable: str | None = None) -> None:
        """Until the engine counts so many rows; with ``variable`` in the table that it then stands for."""
        found: object = None

        def holds() -> bool:
            nonlocal found
            try:
                if variable is not None:
                    self.ask("open", name=name, variable=variable)
                found = self.ask("count", name=name)
            except ClientError as error:
                if variable is None:
                    raise
                found = error
            return found == rows

        wait_until(holds, PATIENCE, lambda: f"{found} rows of {rows}\n{self.notes}")

    def wait_anew(self, name: str, variable: str, rows: int) -> pa.Table:
        """The same where the variable becomes another table."""
        found = pa.table({})

        def holds() -> bool:
            nonlocal found
            try:
                self.ask("open", name=name, variable=variable)
                found = self.rows(name)
            except ClientError:
                return False
            return bool(found.num_rows == rows)

        wait_until(holds, PATIENCE, lambda: self.notes)
        return found

    def attach(self, name: str, variable: str) -> None:
        """Opens a table that may not be offered yet."""
        error: ClientError | None = None

        def holds() -> bool:
            nonlocal error
            try:
                self.ask("open", name=name, variable=variable)
            except ClientError as refused:
                error = refused
                return False
            return True

        wait_until(holds, PATIENCE, lambda: error)

    def kill_client(self) -> None:
        """Whatever state it is in."""
        self._client.kill()
        self._client.communicate()

    def close(self) -> int:
        """Ends the client and, by SIGTERM, the server; its exit code."""
        self._client.communicate(timeout=PATIENCE)
        self.server.terminate()
        self.server.communicate(timeout=PATIENCE)
        return self.server.returncode


def require_engine() -> None:
    """Skips the test where there is no engine."""
    if not PYTHON.exists():
        pytest.skip("no Deephaven engine: `make setup-deephaven` installs one")


@contextmanager
def serving(root: Path, logs: Path, *words: str) -> Iterator[Served]:
    """Serves a root until the end of the body; skips where there is no engine."""
    require_engine()
    notes = logs / "serve.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SPARKHAVEN")} | QUICK
    command = [str(PROGRAM), "--root", str(root), "serve", "--port", "0", "--memory", "1g", "--json", *words]
    with notes.open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)
    served = None
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, notes.read_text(encoding="utf-8")
        served = Served(root, json.loads(line), server, notes)
        yield served
        assert served.close() == 0, served.notes
        assert "stopped" in served.notes
    finally:
        if served is not None:
            served.kill_client()
        server.kill()
        server.communicate()
