"""Programs that some tests need beside Python and a JDK: which are missing, and their Debian packages.

``python -m tests.support.machine`` installs what is missing: with apt-get, as root or by ``sudo`` without a password.
It ends with 1 and says what is missing where it cannot; tests that need that are then skipped, each with its reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from demo.live.browser import PROGRAMS
from tests.crash.disk import images

SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where mkfs and losetup are
# one program of each line is enough
PACKAGES = {
    "chromium": PROGRAMS,
    "xfsprogs": ("xfs_io",),
    "e2fsprogs": ("mkfs.ext4",),
    "mount": ("losetup",),
    "strace": ("strace",),
    "gcc": ("clang", "gcc"),
    "prometheus": ("promtool",),
}

Which = Callable[[str], str | None]


def missing(which: Which = lambda name: shutil.which(name, path=SBIN)) -> list[str]:
    """The packages of which no program is on this machine, in the order of ``PACKAGES``."""
    return [package for package, names in PACKAGES.items() if not any(map(which, names))]


def commands(packages: list[str], *, root: bool, which: Which = shutil.which) -> list[list[str]]:
    """What installs packages; nothing where this user cannot install any."""
    if which("apt-get") is None or not (root or which("sudo")):
        return []
    words = ["apt-get"] if root else ["sudo", "--non-interactive", "apt-get"]
    retries = ["-o", "Acquire::Retries=5"]
    return [
        [*words, *retries, "update", "--quiet=2"],
        [*words, *retries, "install", "--yes", "--quiet=2", "--no-install-recommends", *packages],
    ]


def main() -> int:
    """Exit code 0: every program is there."""
    packages = missing()
    if not packages:
        return _without_disks()
    print(f"setup-machine: installing {', '.join(packages)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in commands(packages, root=os.geteuid() == 0):
        done = subprocess.run(command, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            print(done.stdout.decode(errors="replace")[-2000:], file=sys.stderr)
            break
    if packages := missing():
        print(f"setup-machine: tests are skipped without: apt-get install {' '.join(packages)}", file=sys.stderr)
    return 1 if packages else _without_disks()


def _without_disks() -> int:
    if reason := images.missing():
        print(f"setup-machine: power cuts are skipped: {reason}", file=sys.stderr)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
