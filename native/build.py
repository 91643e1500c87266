"""Compiles the core: ``python native/build.py [--machine x86_64|aarch64] [--sanitize] [OUT.so]``.

``setup.py`` calls it while the package is built. The compiler is Zig's, which pip installs (``ziglang``): it needs
nothing of the machine, and what it makes runs with every glibc from 2.17 on. A library that was made from the same
sources is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PACKAGE = SOURCES.parent / "store" / "native"
MACHINES = ("x86_64", "aarch64")
GLIBC = "2.17"
PLAIN = ("-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
FAST = ("-O3", "-s", "-fno-sanitize=undefined")
TRAPPING = ("-O1", "-g", "-fsanitize=undefined", "-fsanitize-trap=undefined")


def source_files(pattern: str) -> list[Path]:
    """Files of the core by the end of their name, ``*.c`` or ``*.[ch]``, without those of the fuzzer."""
    return sorted(path for path in SOURCES.rglob(pattern) if path.parent.name != "fuzz")


def digest() -> str:
    """SHA-256 of all sources and their places below ``native/``, which the library has in it."""
    sha256 = hashlib.sha256()
    for path in source_files("*.[ch]"):
        sha256.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return sha256.hexdigest()


def library(machine: str) -> Path:
    """Where the library of a machine belongs."""
    return PACKAGE / f"core-{machine}.so"


def compiler() -> list[str] | None:
    """The command of Zig's C compiler; None if this Python has none."""
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def build(target: Path, machine: str, options: Sequence[str] = FAST, command: Sequence[str] | None = None) -> bool:
    """Makes the library, unless it is there from the same sources; whether it was made. OSError, CalledProcessError.

    ``command`` is another compiler for this machine.
    """
    mark = f"sparkhaven-sources:{digest()}"
    if command is None and options is FAST and target.exists() and mark.encode() in target.read_bytes():
        return False
    chosen = list(command or compiler() or [])
    if not chosen:
        raise FileNotFoundError("no compiler: install ziglang, see requirements/dev.txt")
    if command is None:
        chosen += ["-target", f"{machine}-linux-gnu.{GLIBC}"]
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    named = f'-DSPARKHAVEN_SOURCES="{mark.partition(":")[2]}"'
    try:
        chosen += [*PLAIN, *options, named, "-I", str(SOURCES), "-o", str(unfinished)]
        subprocess.run([*chosen, *map(str, source_files("*.c"))], check=True)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compiles the core.")
    parser.add_argument("target", type=Path, nargs="?")
    parser.add_argument("--machine", choices=MACHINES, default=platform.machine())
    parser.add_argument("--sanitize", action="store_true", help="stop at undefined behaviour")
    given = parser.parse_args()
    made = given.target or library(given.machine)
    done = build(made, given.machine, TRAPPING if given.sanitize else FAST)
    print(f"{made}: {'made' if done else 'is of these sources'}")
