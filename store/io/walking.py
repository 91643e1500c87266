"""The files below a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkhaven.store.io.fs import Fs, Stat


def files_below(fs: Fs, path: Path) -> Iterator[Path]:
    """Every file in a directory and in those below it, sorted; the path itself if it is a file."""
    stat = fs.stat(path)
    if stat is not None and not stat.is_dir:
        yield path
        return
    for name, _ in stats_below(fs, path):
        yield path / name


def stats_below(fs: Fs, path: Path, before: str = "") -> Iterator[tuple[str, Stat]]:
    """Every file in a directory and below it, as paths behind ``before``, with what each file is."""
    for name, stat in fs.entries(path):
        if stat.is_dir:
            yield from stats_below(fs, path / name, f"{before}{name}/")
        else:
            yield before + name, stat
