"""The compiled core, loaded once a process.

``native/`` has its sources, in C; the library is built while the package is (``setup.py``) and lies beside this
module. From a zip, as ``spark-submit --py-files`` brings it, it is first copied to the user's cache, under its digest.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil
import platform
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from sparkhaven.store.errors import CoreNotUsableError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cached_copy
from sparkhaven.store.native.abi import ABI, SIGNATURES

HINT = (
    "install the wheel of sparkhaven for this machine (Linux on x86_64 or aarch64), or its source, which pip builds"
    " with ziglang. In a checkout run `make setup`"
)


@lru_cache(maxsize=1)
def core() -> ctypes.CDLL:
    """The library of this process. The first call loads it.

    Returns:
        The library, its functions with their types.

    Raises:
        CoreNotUsableError: there is no library of this version for this machine.
    """
    return load(library_file(Fs(), os.environ))


def sources() -> str:
    """What the library of this process was made from: the start of the SHA-256 of its sources.

    Returns:
        12 hexadecimal digits.

    Raises:
        CoreNotUsableError: there is no library of this version for this machine.
    """
    return str(core().sh_sources().decode().rpartition(":")[2][:12])


def file_name(machine: str) -> str:
    """The file of the library for a machine, as ``uname -m`` names it."""
    return f"core-{machine}.so"


def library_file(fs: Fs, environ: Mapping[str, str], package: str = __package__) -> Path:
    """The library as a file that can be loaded: beside this module, or copied from the zip that it is in.

    Raises:
        CoreNotUsableError: there is none for this machine, or the cache cannot be written.
    """
    name = file_name(platform.machine())
    beside = Path(__file__).with_name(name)
    if package == __package__ and fs.stat(beside) is not None:
        return beside
    try:
        data = pkgutil.get_data(package, name)
    except OSError:
        data = None
    if data is None:
        raise CoreNotUsableError(
            "the compiled core is missing", where=beside, expected=f"{name} in {package}", found="no file", hint=HINT
        )
    try:
        return cached_copy(fs, environ, "native", data, ".so")
    except OSError as error:
        raise CoreNotUsableError(
            "the compiled core cannot be copied out of the zip of the job",
            where=error.filename,
            expected="a directory that can be written",
            found=error.strerror,
            hint="set XDG_CACHE_HOME to such a directory",
        ) from error


def load(path: Path, abi: int = ABI) -> ctypes.CDLL:
    """The library in a file.

    Args:
        path: the file.
        abi: the version that its functions must have.

    Returns:
        The library, its functions with their types.

    Raises:
        CoreNotUsableError: the system refuses it, or it is of another version.
    """
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise CoreNotUsableError(
            "the compiled core cannot be loaded", where=path, expected=f"version {abi}", found=error, hint=HINT
        ) from error
    version = library.sh_abi()
    if version != abi:
        raise CoreNotUsableError(
            "the compiled core is of another version", where=path, expected=abi, found=version, hint=HINT
        )
    return library
