"""A file that a package in a zip brings, as a file of its own in the user's cache: the system loads no other."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory


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
