"""The directory of what can be made again, for one user of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Sparkhaven's directory in the user's cache: ``$XDG_CACHE_HOME/sparkhaven`` or ``~/.cache/sparkhaven``."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(environ.get("HOME", "~")).expanduser() / ".cache") / "sparkhaven"
