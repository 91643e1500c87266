"""A volume of a few pages, in memory: what is written to it ends with ENOSPC. Mounting needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def mountable() -> str:
    """Why no volume can be mounted here; nothing if it can."""
    return "" if os.geteuid() == 0 else "mounting needs root"


@contextmanager
def small_volume(directory: Path, kib: int) -> Iterator[Path]:
    """An empty volume of so many KiB, mounted at a new directory; unmounted at the end."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=755", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
