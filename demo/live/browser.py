"""A picture of the engine's grid, taken by a headless Chromium.

It is driven through the DevTools protocol over two pipes, its descriptors 3 and 4: messages are JSON, each ended by a
zero byte. So neither a driver nor a port is needed, and the key in the address is in no list of processes.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import RetryableFeedError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HINT = "no picture: there is no browser. `apt install chromium` installs one"
WIDTH, HEIGHT = 1280, 640
PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.2
COLOURS = 12  # a grid without rows has fewer: smooth text has many shades
_PIPES = 'in=$1 out=$2; shift 2; exec "$@" 3< "/dev/fd/$in" 4> "/dev/fd/$out"'
# Different colours below the header of the first canvas. The engine's page draws its grid there.
_SHADES = """(() => {
  const canvas = document.querySelector("canvas");
  if (!canvas || canvas.height < 200) return 0;
  const data = canvas.getContext("2d").getImageData(0, 60, canvas.width, 140).data;
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
  return seen.size;
})()"""


def program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page, its profile below ``directory``. RetryableFeedError: it does not answer."""

    def __init__(self, path: str, directory: Path) -> None:
        self._log = directory / "browser.log"
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={directory / 'profile'}", "--no-first-run"]
        flags += ["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # as root it does not start with one
        command = ["sh", "-c", _PIPES, "sh", str(theirs_in), str(theirs_out), path, *flags, "about:blank"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, ""
        self.patience = PATIENCE_SECONDS

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def picture(self, url: str) -> bytes:
        """Opens a page with a grid, waits until it has rows, and returns a PNG of it."""
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self._ask("Page.navigate", url=url)
        until = time.monotonic() + self.patience
        while (shades := self._shades()) < COLOURS:
            if time.monotonic() > until:
                raise self._failed(f"{shades} colours in its grid")
            time.sleep(PAUSE_SECONDS)
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _shades(self) -> int:
        shades = self._ask("Runtime.evaluate", expression=_SHADES, returnByValue=True)["result"]
        return int(shades.get("value") or 0)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        request: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        try:
            os.write(self._out, json.dumps(request).encode() + b"\0")
        except BrokenPipeError:
            raise self._failed("no process") from None
        until = time.monotonic() + self.patience
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise self._failed(answer["error"].get("message"))
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0.0, until - time.monotonic()))[0]:
                raise self._failed("no answer")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise self._failed("the browser has ended")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _failed(self, state: object) -> RetryableFeedError:
        return RetryableFeedError(
            "the browser does not show the grid",
            where=self._log,
            expected=f"a page with a grid that has rows, within {self.patience:.0f} seconds",
            found=state,
            hint="read its log, then start the demo again",
        )
