"""A file system that knows which line of the product makes each of its calls, and lets one of them fail.

A site is a line of ours and the kind of call it makes, however deep inside ``store.io.fs`` the call is; ``calls`` lists
the sites in the order of a run. A sync that fails is as bad as a kernel makes it: what was written before is in memory
for every reader, but will never be on the disk, and the next sync succeeds without it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pyarrow as pa

from sparkhaven.store.io.fs import Lock, Stat
from sparkhaven.store.io.open_files import Opened
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.places import REPOSITORY

T = TypeVar("T")
_THROUGH = (
    "sparkhaven/store/io/fs.py",
    "sparkhaven/store/io/sync.py",
    "tests/crash/disk/call_sites.py",
    "tests/support/disks/model_fs.py",
    "tests/support/disks/power_cut_fs.py",
)
WRITES = ("write", "create", "mkdir", "rename", "symlink", "truncate")
SYNCS = ("sync", "sync-dir", "sync-fs")


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """A line of the product that makes a kind of call."""

    place: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``nth`` call of a site fails with ``code``; ``half``: a write has put half of its bytes there by then."""

    site: Site
    nth: int
    code: int
    half: bool = False

    def __str__(self) -> str:
        return f"{errno.errorcode[self.code]}{' after half' if self.half else ''}, call {self.nth} of {self.site}"


class CallSiteFs(PowerCutFs):
    """Counts calls by site; fails one of them. ``retried`` names files that were synced again after a failed sync
    without having been written again."""

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        super().__init__(root)
        self.calls: list[Site] = []
        self.fault: Fault | None = fault
        self.failed = 0
        self.retried: list[Path] = []
        self._left = fault.nth if fault else 0
        self._given_up: set[Path] = set()

    def _due(self, kind: str) -> bool:
        site = Site(_place(sys._getframe(2)), kind)
        self.calls.append(site)
        if self.fault is None or site != self.fault.site:
            return False
        self._left -= 1
        return self._left == 0

    def _fail(self, path: Path) -> None:
        assert self.fault is not None
        self.failed += 1
        raise OSError(self.fault.code, os.strerror(self.fault.code), str(path))

    def _call(self, kind: str, path: Path) -> None:
        if self._due(kind):
            self._fail(path)

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, path: Path) -> bytes:
        self._call("read", path)
        return super().read(path)

    def read_range(self, path: Path, offset: int, length: int) -> bytes:
        self._call("read", path)
        return super().read_range(path, offset, length)

    def read_block(self, path: Path, offset: int, length: int) -> bytes:
        self._call("read", path)
        return super().read_block(path, offset, length)

    def open(self, path: Path) -> Opened:
        self._call("read", path)
        return super().open(path)

    def map(self, path: Path, length: int) -> pa.Buffer:
        self._call("map", path)
        return super().map(path, length)

    def map_range(self, path: Path, offset: int, length: int) -> pa.Buffer:
        self._call("map", path)
        return super().map_range(path, offset, length)

    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        self._call("stat", path)
        return super().stat(path, follow=follow)

    def sizes(self, directory: Path, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        self._call("stat", directory)
        return super().sizes(directory, names)

    def names(self, path: Path) -> list[str]:
        self._call("list", path)
        return super().names(path)

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        self._call("read", Path(paths[0]))
        return super().read_together(paths, read)

    def free_bytes(self, path: Path) -> int:
        self._call("stat", path)
        return super().free_bytes(path)

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        self._call("lock", path)
        return super().lock(path, wait=wait, make=make)

    # --- changing --------------------------------------------------------------------------------------

    def _change(self, kind: str, path: Path) -> None:
        if kind not in ("write", *SYNCS):
            self._call(kind, path)
        super()._change(kind, path)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        if self._due("write"):
            if self.fault is not None and self.fault.half:
                super().write_at(path, offset, bytes(data)[: len(data) // 2])
            self._fail(path)
        super().write_at(path, offset, data)
        self._given_up.discard(path)

    def write_new(self, path: Path, data: bytes, *, allocate: bool = False) -> None:
        if self._due("write"):
            if self.fault is not None and self.fault.half:
                super().write_new(path, data[: len(data) // 2])
            self._fail(path)
        super().write_new(path, data, allocate=allocate)
        self._given_up.discard(path)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._given_up.discard(target)

    # --- durability ------------------------------------------------------------------------------------

    def _sync_file(self, path: Path) -> None:
        if self._due("sync"):
            file = self._file(path)
            file.pending.clear()  # the kernel believes that these pages are clean
            self._given_up.add(path)
            self._fail(path)
        if path in self._given_up:
            self.retried.append(path)
        super()._sync_file(path)

    def _sync_dir(self, path: Path) -> None:
        self._call("sync-dir", path)
        super()._sync_dir(path)


def _place(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(str(REPOSITORY)):
            place = str(Path(name).relative_to(REPOSITORY))
            if place not in _THROUGH:
                return f"{place}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return "outside"


def faults_of(calls: list[Site]) -> list[Fault]:
    """Every fault that a run with these calls can meet: each call with every error that its kind knows."""
    faults = []
    counts: dict[Site, int] = {}
    for site in calls:
        counts[site] = nth = counts.get(site, 0) + 1
        codes = [errno.EIO, errno.EINTR]
        if site.kind in WRITES + SYNCS:
            codes.append(errno.ENOSPC)
        faults += [Fault(site, nth, code) for code in codes]
        if site.kind == "write":
            faults += [Fault(site, nth, code, half=True) for code in (errno.EIO, errno.ENOSPC)]
    return faults
