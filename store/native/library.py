"""The compiled core, loaded once a process, and the addresses of arrays as its functions take them.

``native/`` has its sources, in C; the library is built while the package is (``setup.py``) and lies beside this
module. From a zip, as ``spark-submit --py-files`` brings it, it is first copied to the user's cache, under its digest.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CoreNotUsableError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cached_copy
from sparkhaven.store.native import abi
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


ENTRY_KINDS = {  # by kind and width of a dtype
    "i1": abi.ENTRY_BYTE,
    "i2": abi.ENTRY_SHORT,
    "i4": abi.ENTRY_INT,
    "i8": abi.ENTRY_LONG,
    "u2": abi.ENTRY_CHAR,
    "f4": abi.ENTRY_FLOAT,
    "f8": abi.ENTRY_DOUBLE,
}
_NOTHING = np.zeros(1, np.int64)  # where an array without a buffer points to


def address(array: npt.NDArray[Any]) -> int:
    """Where a contiguous array begins; whoever calls keeps the array."""
    begin: int = array.__array_interface__["data"][0]
    return begin


def valid_address(array: pa.Array) -> int | None:
    """Where the bits begin that say which values are not null, ``array.offset`` bits before those of ``array``."""
    bits = array.buffers()[0]
    return bits.address if bits is not None and array.null_count else None


def bitmap(valid: npt.NDArray[np.uint8]) -> tuple[pa.Buffer | None, int]:
    """The bits of an array whose values are null where a byte is 0, None if none is; and how many are."""
    missing = len(valid) - int(np.count_nonzero(valid))
    return (pa.py_buffer(np.packbits(valid, bitorder="little")) if missing else None), missing


@dataclass(frozen=True, slots=True)
class TextBuffers:
    """Texts or bytes of an Arrow array: addresses, and ``size``, the bytes of ``data``.

    Text i of ``count`` is between ends ``first`` + i and ``first`` + i + 1, of 8 bytes each if ``wide``, else of 4.
    ``valid`` is None where no text is null. ``array`` keeps the memory.
    """

    ends: int
    wide: bool
    valid: int | None
    first: int
    count: int
    data: int
    size: int
    array: pa.Array

    @property
    def arguments(self) -> tuple[int, bool, int | None, int, int, int, int]:
        """As functions of the core take them that know of nulls."""
        return self.ends, self.wide, self.valid, self.first, self.count, self.data, self.size

    @property
    def valid_arguments(self) -> tuple[int, bool, int, int, int, int]:
        """As functions of the core take them whose texts are never null."""
        return self.ends, self.wide, self.first, self.count, self.data, self.size

    @staticmethod
    def of(array: pa.Array) -> TextBuffers:
        """Those of a string, binary, large_string or large_binary array."""
        kind = array.type
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        _, ends, data = array.buffers()
        return TextBuffers(
            ends.address if ends is not None else address(_NOTHING),
            wide,
            valid_address(array),
            array.offset,
            len(array),
            data.address if data is not None else address(_NOTHING),
            data.size if data is not None else 0,
            array,
        )
