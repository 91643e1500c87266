"""Removes environments of Python in the user's cache whose Python is gone, or that were not used for a month.

``python -m tools.environments DIRECTORY``, ``DIRECTORY`` being the new one: ``.../airflow-9f3c`` and all other
``.../airflow-*``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sparkhaven.jobs.session.fast_start import is_old
from sparkhaven.store.io.fs import Fs

READY = ".ready"  # in an environment that is complete; its time of change is that of the last use


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Removes old environments of the kind of a new one.")
    parser.add_argument("directory", type=Path)
    for gone in remove_environments(Fs(), parser.parse_args().directory, time.time()):
        print(f"removed {gone}: its Python is gone, or it was not used for a month")
