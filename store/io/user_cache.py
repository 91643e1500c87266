"""What can be made again, for one user of a machine: where it lies, and copies out of a package in a zip."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.store.io.fs import Fs


def cached_copy(fs: Fs, environ: Mapping[str, str], folder: str, data: bytes, suffix: str) -> Path:
    """The file in the cache that has these bytes, written if it is not there or has others. OSError: it cannot be.

    Its name is the digest of the bytes, so that versions live side by side.
    """
    digest = hashlib.sha256(data).hexdigest()
    path = cache_directory(environ) / folder / f"{digest}{suffix}"
    if fs.stat(path) is None or fs.read(path) != data:
        fs.mkdirs(path.parent)
        unfinished = path.with_name(f".{digest}.{uuid.uuid4().hex}")
        fs.write_new(unfinished, data)
        fs.rename(unfinished, path)
    return path


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Sparkhaven's directory in the user's cache: ``$XDG_CACHE_HOME/sparkhaven`` or ``~/.cache/sparkhaven``."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(environ.get("HOME", "~")).expanduser() / ".cache") / "sparkhaven"
