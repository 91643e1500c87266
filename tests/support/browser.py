"""A real Chromium without a window, driven over its debugging pipe: no driver, no port, no other package."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

from demo.live.browser import program

HOW = "no Chromium: apt-get install chromium, or put one on the PATH"
PATIENCE_S = 120.0
OPTIONS = (
    "--headless=new --remote-debugging-pipe --no-first-run --disable-gpu --disable-dev-shm-usage --disable-extensions "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars --mute-audio "
    "--force-color-profile=srgb --font-render-hinting=none"
)


class Browser:
    """One page in a browser. ``events``: all that it has reported, by method."""

    def __init__(self, writes: int, reads: int) -> None:
        self._writes, self._reads, self._numbers = writes, reads, itertools.count(1)
        self._left = b""
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """The result of a command of the DevTools protocol; AssertionError: it has failed."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                return dict(found["result"])

    def open(self, url: str) -> None:
        """Shows a page, and waits until it is loaded."""
        seen = len(self.events)
        self.call("Page.navigate", url=url)
        while not any(name == "Page.loadEventFired" for name, _ in self.events[seen:]):
            self._next()

    def run(self, program: str) -> Any:
        """The value of an expression in the page, a promise awaited; AssertionError: it has raised."""
        found = self.call("Runtime.evaluate", expression=program, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int, *, shift: bool = False) -> None:
        """One key, as from a keyboard."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def colours(self, scheme: str) -> None:
        """Prefers ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        """The window, in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self) -> bytes:
        """What is shown, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def of(self, *names: str) -> list[dict[str, Any]]:
        """The events with these names."""
        return [what for name, what in self.events if name in names]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select([self._reads], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            part = os.read(self._reads, 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self.events.append((found["method"], found["params"]))
        return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the context."""
    path = program()
    assert path is not None, HOW
    home = Path(tempfile.mkdtemp(prefix="sparkhaven-browser-"))
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100) for number in (theirs_in, theirs_out)]
    os.close(theirs_in)
    os.close(theirs_out)
    words = [path, *OPTIONS.split(), f"--user-data-dir={home}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    silent = os.open(os.devnull, os.O_RDWR)
    ours = [(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)]
    std = [(os.POSIX_SPAWN_DUP2, silent, number) for number in range(3)]
    pid = os.posix_spawn(path, words, {**os.environ, "HOME": str(home)}, file_actions=[*std, *ours], setpgroup=0)
    for number in (*high, silent):
        os.close(number)
    try:
        found = Browser(ours_out, ours_in)
        yield found
        found._session = None
        with suppress(AssertionError, OSError):
            found.call("Browser.close")
    finally:
        os.close(ours_out)
        os.close(ours_in)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        shutil.rmtree(home, ignore_errors=True)
