"""The compiled core: loaded once a process, and never needed.

``native/`` has its sources, in C; the library is built while the package is (``setup.py``) and lies beside this
module. From a zip, as ``spark-submit --py-files`` brings it, it is first copied to the user's cache, under its digest.
Where it is missing, of another machine or another version, or the system refuses it, one line in the log says so, and
whoever asked goes the plain way, which gives the same. ``SPARKHAVEN_NATIVE=0`` turns it off.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import pkgutil
import platform
import uuid
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.user_cache import cache_directory

ABI = 12  # SH_ABI of native/sparkhaven.h
SWITCH = "SPARKHAVEN_NATIVE"
_LOG = logging.getLogger("sparkhaven.native")
_WORD, _AT = ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "sh_abi": (ctypes.c_int64, []),
    "sh_sources": (ctypes.c_char_p, []),
    "sh_limit": (_WORD, [_WORD]),
    "sh_line_ends": (ctypes.c_int64, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]),
    "sh_declare": (ctypes.c_int64, [ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_int64] * 4]),
    "sh_json_scan": (
        ctypes.c_int64,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p],
    ),
    "sh_csv_scan": (_WORD, [_AT, _AT, _AT, _WORD, _WORD]),
    "sh_digest_fixed": (_WORD, [ctypes.c_uint64, _WORD, _AT, _WORD, ctypes.c_uint64, _AT]),
    "sh_digest_texts": (_WORD, [ctypes.c_uint64, _AT, _WORD, _AT, _WORD, _WORD, _AT, _WORD, _AT, _AT]),
    "sh_digest_values": (_WORD, [ctypes.c_uint64, _AT, _WORD, _AT, _WORD, _AT]),
    "sh_sort_texts": (_WORD, [_AT, _WORD, _AT, _WORD, _WORD, _AT, _WORD, _AT, _AT]),
    "sh_rank_texts": (_WORD, [_AT, _WORD, _AT, _AT]),
    "sh_texts_ordered": (_WORD, [_AT, *[_WORD] * 3, _AT, _WORD]),
    "sh_take_texts": (_WORD, [_AT, *[_WORD] * 3, _AT, _WORD, _AT, _WORD, _AT, _AT, _WORD]),
    "sh_take_parts": (_WORD, [_AT, _WORD, _AT, _WORD, _AT, _WORD, _WORD, _AT, _AT, _WORD]),
    "sh_gather": (_WORD, [_AT, _WORD, _WORD, _AT, _WORD, _AT]),
    "sh_gather_ids": (_WORD, [_AT, _WORD, _AT, _WORD, _AT, _WORD, _AT]),
    "sh_count_ids": (_WORD, [_AT, _WORD, _AT, _WORD]),
    "sh_read_files": (_WORD, [_AT, _WORD, _WORD, _AT, _WORD, *[_AT] * 3, _WORD, _AT]),
    "sh_count_nulls": (_WORD, [_AT, _WORD, _WORD, ctypes.c_uint64]),
    "sh_valid_bits": (_WORD, [_AT, _WORD, _WORD, ctypes.c_uint64, _AT]),
    "sh_check_ids": (_WORD, [_AT, _WORD, _WORD]),
    "sh_check_texts": (_WORD, [_AT, _WORD, _WORD, _AT, _WORD, _WORD, _AT, _AT]),
    "sh_crc32": (None, [_AT, _AT, _WORD, _AT]),
    "sh_verify_fixed": (_WORD, [_WORD, _WORD, _AT, _WORD, _AT, _AT, _AT]),
    "sh_verify_ids": (_WORD, [_AT, _WORD, _WORD, _AT]),
    "sh_verify_texts": (_WORD, [_AT, _WORD, _WORD, _AT, *[_WORD] * 2, *[ctypes.c_char_p, _WORD] * 2, _AT]),
    "sh_kafka_look": (_WORD, [_AT, _WORD, _WORD, _AT, _AT]),
    "sh_kafka_frame": (_WORD, [_AT, _WORD, _WORD, _AT, _WORD, _AT]),
    "sh_kafka_release": (None, [_AT, _WORD, _AT]),
}


class CoreNotUsableError(Exception):
    """Why the library cannot be used here."""


@lru_cache(maxsize=1)
def core() -> ctypes.CDLL | None:
    """The library of this process, None where there is none. The first call loads it."""
    if os.environ.get(SWITCH) == "0":
        _LOG.info("the compiled core is turned off by %s=0", SWITCH)
        return None
    try:
        return load(library_file(Fs(), os.environ))
    except CoreNotUsableError as error:
        _LOG.warning("the compiled core is not used (%s). Results are the same, decoding takes longer", error)
        return None


def sources() -> str:
    """What the library of this process was made from: the start of the SHA-256 of its sources, ``none`` without one."""
    found = core()
    return "none" if found is None else found.sh_sources().decode().rpartition(":")[2][:12]


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
    digest = hashlib.sha256(data).hexdigest()
    path = cache_directory(environ) / "native" / f"{digest}.so"
    try:
        if fs.stat(path) is None or fs.read(path) != data:
            fs.mkdirs(path.parent)
            unfinished = path.with_name(f".{digest}.{uuid.uuid4().hex}")
            fs.write_new(unfinished, data)
            fs.rename(unfinished, path)
    except OSError as error:
        raise CoreNotUsableError(f"{path} cannot be written: {error.strerror}") from error
    return path


def load(path: Path) -> ctypes.CDLL:
    """The library in a file. NotUsableError if the system refuses it, or it is of another version."""
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise CoreNotUsableError(f"{path} cannot be loaded: {error}") from error
    found = library.sh_abi()
    if found != ABI:
        raise CoreNotUsableError(f"{path} has version {found} of its functions, not {ABI}. Build the package again")
    return library
