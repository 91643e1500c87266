"""What nobody needs any more of the user's cache: of installations that are gone, or not used for a month.

Whoever makes a new entry removes the old ones of its kind. ``python -m sparkhaven.jobs.session.cache_cleanup
DIRECTORY`` does so for environments of Python, ``DIRECTORY`` being the new one: ``.../airflow-9f3c`` and all other
``.../airflow-*``.
"""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

from sparkhaven.store.io.fs import Fs

READY = ".ready"  # in an environment that is complete; its time of change is that of the last use
KEPT_S = 30 * 86_400.0
_NOTED_S = 86_400.0
_STARTED = re.compile(r"^exec (/\S+|'[^']+') \"\$@\"$", re.MULTILINE)


def note_use(fs: Fs, mark: Path, now_s: float) -> None:
    """Gives a file the present time of change, once a day at most. A cache that cannot be written stays as it is."""
    stat = fs.stat(mark)
    if stat is None or now_s - stat.mtime_ns / 1e9 < _NOTED_S:
        return
    try:
        fs.replace(mark, fs.read(mark), sync=False)
    except OSError:
        return


def is_old(fs: Fs, mark: Path, now_s: float) -> bool:
    """Whether what a file stands for was not used for a month; without the file nobody knows."""
    stat = fs.stat(mark)
    return stat is not None and now_s - stat.mtime_ns / 1e9 > KEPT_S


def remove_environments(fs: Fs, newest: Path, now_s: float) -> list[Path]:
    """Removes environments of the kind of ``newest`` that have no Python any more or were not used for a month.

    One that is being made has its lock ``NAME.lock`` taken, and is left alone. Returns what was removed.
    """
    kind = newest.name.rpartition("-")[0]
    removed = []
    for path in sorted(newest.with_name(name) for name in fs.names(newest.parent) if name.startswith(f"{kind}-")):
        stat = fs.stat(path, follow=False)
        if path == newest or stat is None or not stat.is_dir:
            continue
        lock = fs.lock(path.with_name(f"{path.name}.lock"))
        if lock is None:
            continue
        with lock:
            if fs.stat(path / "bin" / "python") is None or is_old(fs, path / READY, now_s):
                fs.remove_tree(path)
                removed.append(path)
    return removed


def remove_launchers(fs: Fs, newest: Path, now_s: float) -> None:
    """Removes launchers like ``newest`` whose Python is gone, and that were not used for a month.

    A Python that is not here may be on another machine, or in another container, which has the same home directory.
    """
    kind = newest.name.rpartition("-")[0]
    for path in [newest.with_name(name) for name in fs.names(newest.parent) if name.startswith(f"{kind}-")]:
        started = _STARTED.search(fs.read(path).decode("utf-8", "replace"))
        if (
            path != newest
            and is_old(fs, path, now_s)
            and started
            and fs.stat(Path("".join(shlex.split(started[1])))) is None
        ):
            fs.unlink(path)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="Removes old environments of the kind of a new one.")
    parser.add_argument("directory", type=Path)
    for gone in remove_environments(Fs(), parser.parse_args().directory, time.time()):
        print(f"removed {gone}: its Python is gone, or it was not used for a month")
