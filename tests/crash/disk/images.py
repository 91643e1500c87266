"""Small file systems in a file, mounted over a loop device, whose power can be cut.

``xfs_io -x -c shutdown`` (ext4 and xfs) stops a mounted file system where it stands, without writing its journal: after
the next mount there is what was synced and what the disk happened to get. Needs root, loop devices and the
Debian packages xfsprogs and e2fsprogs; ``missing`` says what is not there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

KINDS = {"ext4": 96, "xfs": 320}  # MiB; mkfs.xfs takes no less than 300
_TOOLS = ("mount", "umount", "losetup", "xfs_io", "mkfs.ext4", "mkfs.xfs")
_SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing() -> str:
    """Why power cannot be cut on a real file system here; nothing if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    gone = [tool for tool in _TOOLS if shutil.which(tool, path=_SBIN) is None]
    if gone:
        return f"not installed: {', '.join(gone)} (Debian packages xfsprogs, e2fsprogs, mount)"
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False, env=_env())
    return "" if found.returncode == 0 else f"no loop device: {found.stderr.strip()}"


class Image:
    """A mounted file system of a kind below ``base``; unmounted and gone when the ``with`` block ends.

    ``mib``: its size, where it is not that of ``KINDS``. Its blocks are cached once: the loop device reads past the
    page cache of the file system that its file is in.
    """

    def __init__(self, base: Path, kind: str, mib: int | None = None) -> None:
        self._file, self.mount = base / f"{kind}.img", base / f"{kind}.mnt"
        self._kind, self._mib = kind, mib or KINDS[kind]
        self._mounted, self._loop = False, ""

    def __enter__(self) -> Image:
        self.mount.mkdir()
        with self._file.open("wb") as file:
            file.truncate(self._mib << 20)
        _run(f"mkfs.{self._kind}", "-q", str(self._file))
        self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._detach()
        self._file.unlink()
        self.mount.rmdir()

    def cut_power(self) -> None:
        """From here on every call fails with EIO; what was not synced is not coming back."""
        _run("xfs_io", "-x", "-c", "shutdown", str(self.mount))

    def boot(self) -> None:
        """Unmounts what is dead and mounts it again: the journal is replayed. No process may have files open there."""
        self._detach()
        self._attach()

    def _attach(self) -> None:
        self._loop = _run("losetup", "--find", "--show", "--direct-io=on", str(self._file))
        _run("mount", self._loop, str(self.mount))
        self._mounted = True

    def _detach(self) -> None:
        if not self._mounted:
            return
        for pause in (0.02, 0.1, 0.5, 2.0, 5.0):
            if (
                subprocess.run(["umount", str(self.mount)], check=False, capture_output=True, env=_env()).returncode
                == 0
            ):
                break
            time.sleep(pause)
        else:
            _run("umount", "--lazy", str(self.mount))  # better than a mount that stays
        _run("losetup", "--detach", self._loop)
        self._mounted = False


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": _SBIN}


def _run(*command: str) -> str:
    """Runs a command; returns what it printed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=_env())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
