"""Paths as users write them: the one parser for the command line, stream files, Python, Spark's options and DAGs.

A path is a POSIX path. ``file:///x`` and ``file:/x`` are the path that they name, percent-decoded. Any other scheme
names storage that is not a file system of this machine; taken as a path it would be a directory ``s3:`` below the
current one. Spark's own ``checkpointLocation`` never comes here: Spark reads and writes it with any scheme.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from sparkhaven.store.errors import SettingsError

LOCAL_HOSTS = frozenset({"", "localhost"})
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)(?://([^/]*))?(/.*)?\Z", re.DOTALL)  # C:/x is a name


def local_path(path: str | os.PathLike[str], base: Path | None = None) -> Path:
    """The path that a user has written; a relative one starts from ``base``, by default the current directory.

    ``~`` is the home directory, unless a file of that name is there. A ``Path`` has lost the second slash of a URL,
    and the host with it: give URLs as text. SettingsError: another scheme than ``file``, a file of another host, or
    no text, as of a variable that is not set.
    """
    text = os.fspath(path)
    if not text:
        raise SettingsError(
            "the path is empty",
            expected="a path of this machine, or file:///PATH",
            found="''",
            hint="set the variable that should have it, or write . for the current directory",
        )
    url = _URL.match(text)
    if url is not None:
        if url[1].lower() != "file":
            raise _not_mounted(text, url[1])
        return Path(file_of_url(text))
    written = Path(text) if base is None else base / text
    return written if not text.startswith("~") or os.path.lexists(written) else _home(written, text, base)


def file_of_url(url: str) -> str:
    """The path of ``file:///x``, ``file:/x`` or ``file://localhost/x``, percent-decoded.

    SettingsError: a file of another host, or no path.
    """
    parts = _URL.match(url)
    host, encoded = (parts[2] or "", parts[3] or "") if parts is not None else ("", "")
    if host.lower() not in LOCAL_HOSTS or not encoded:
        raise SettingsError(
            "the URL is not a path of this machine",
            where=url,
            expected="file:///PATH",
            found=f"host {host}" if host else "no path",
            hint=f"write file:///{host}{encoded} for a path of this machine, or mount the files of that machine",
        )
    path = "/" + os.fsdecode(unquote_to_bytes(os.fsencode(encoded))).lstrip("/")
    if "\0" in path:
        raise SettingsError("the path has a zero byte", where=url, expected="file:///PATH", found="%00")
    return path


def _not_mounted(text: str, scheme: str) -> SettingsError:
    return SettingsError(
        f"the path has the unsupported scheme {scheme}",
        where=text,
        expected="a path of this machine, or file:///PATH",
        found=f"scheme {scheme}",
        hint=f"mount it and name the mounted directory. Write the full path of a directory that is named {scheme}:",
    )


def _home(written: Path, text: str, base: Path | None) -> Path:
    try:
        home = Path(text).expanduser()
    except RuntimeError:  # no such user: the name of a file
        return written
    return home if base is None else base / home
