"""The compiled core: loaded once a process, and never needed.

``native/`` has its sources, in C; the library is built while the package is (``setup.py``) and lies beside this
module. From a zip, as ``spark-submit --py-files`` brings it, it is first copied to the user's cache, under its digest.
Where it is missing, of another machine or another version, or the system refuses it, one line in the log says so, and
whoever asked goes the plain way, which gives the same. ``SPARKHAVEN_NATIVE=0`` turns it off.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pkgutil
import platform
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from sparkhaven.store.io.cached_copy import cached_copy
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.abi import ABI, SIGNATURES

SWITCH = "SPARKHAVEN_NATIVE"
_LOG = logging.getLogger("sparkhaven.native")


class CoreNotUsableError(Exception):
    """Why the library cannot be used here."""


@lru_cache(maxsize=1)
def core(abi: int = ABI) -> ctypes.CDLL | None:
    """The library of this process, None where there is none of this version. The first call loads it."""
    if os.environ.get(SWITCH) == "0":
        _LOG.info("the compiled core is turned off by %s=0", SWITCH)
        return None
    try:
        return load(library_file(Fs(), os.environ), abi)
    except CoreNotUsableError as error:
        _LOG.warning("the compiled core is not used (%s). Results are the same, decoding takes longer", error)
        return None


def sources() -> str:
    """What the library of this process was made from: the start of the SHA-256 of its sources, ``none`` without one."""
    library = core()
    return "none" if library is None else library.sh_sources().decode().rpartition(":")[2][:12]


def file_name(machine: str) -> str:
    """The file of the library for a machine, as ``uname -m`` names it."""
    return f"core-{machine}.so"


def library_file(fs: Fs, environ: Mapping[str, str], package: str = __package__) -> Path:
    """The library as a file that can be loaded: beside this module, or copied from the zip that it is in.

    NotUsableError if there is none for this machine, or the cache cannot be written.
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
        raise CoreNotUsableError(f"there is no {name} in {package}")
    try:
        return cached_copy(fs, environ, "native", data, ".so")
    except OSError as error:
        raise CoreNotUsableError(f"{error.filename} cannot be written: {error.strerror}") from error


def load(path: Path, abi: int = ABI) -> ctypes.CDLL:
    """The library in a file. NotUsableError if the system refuses it, or it is of another version."""
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise CoreNotUsableError(f"{path} cannot be loaded: {error}") from error
    version = library.sh_abi()
    if version != abi:
        raise CoreNotUsableError(f"{path} has version {version} of its functions, not {abi}. Build the package again")
    return library
