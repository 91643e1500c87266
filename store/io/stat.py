"""What the system says of a file or directory."""

from __future__ import annotations

import errno
import os
import stat as stat_module
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LATEST_NS = 2**63 - 1

Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes, and time of the last change (ns): the same for a file that nobody touched."""


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes, times in nanoseconds since the epoch, and identity of one file or directory.

    A time beyond the years 1677 and 2262 saturates, since logs and sources have 64 bits for it.
    ``links``: number of hard links; with more than one, a backup may share the file. ``owner``: number of the user.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    is_dir: bool
    is_link: bool
    links: int = 1
    is_file: bool = True  # else a directory, pipe, socket or device
    owner: int = -1

    @staticmethod
    def of(status: os.stat_result) -> Stat:
        mode = status.st_mode
        kinds = stat_module.S_ISDIR(mode), stat_module.S_ISLNK(mode), stat_module.S_ISREG(mode)
        times = _saturated(status.st_mtime_ns), _saturated(status.st_ctime_ns)
        identity = status.st_ino, status.st_dev
        return Stat(status.st_size, *times, *identity, *kinds[:2], status.st_nlink, kinds[2], status.st_uid)


def _saturated(time_ns: int) -> int:
    return min(max(time_ns, -LATEST_NS), LATEST_NS)


def present(directory: Path, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Those of these names of a directory that are there, links followed; others are removed, or links to nothing."""
    begin = f"{directory}/"
    for name in names:
        try:
            yield name, os.stat(begin + name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
