"""The structures that the compiled scanners work on, as ``native/sparkhaven.h`` has them, and their table of powers."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt

BYTE, SHORT, INT, LONG, CHAR, FLOAT, DOUBLE, BOOLEAN, ISO, EPOCH, TEXT, TOKEN = range(12)
LOWEST_POWER, HIGHEST_POWER = -342, 308
_EXACT_FROM = -27  # below, the inverse of a power of five has more than 64 bits that matter


class ColumnLayout(ctypes.Structure):
    """``struct sh_column``."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        ("low", ctypes.c_int64),
        ("high", ctypes.c_int64),
        ("digits", ctypes.c_int64),
        ("last_lead", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("local", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("room", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("text_ends", ctypes.c_void_p),
        ("text_bytes", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("slot_mask", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("texts", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("some_null", ctypes.c_int64),
        ("also", ctypes.c_int64),
        ("line", ctypes.c_int64),
    ]


SLOT = np.dtype([("key", np.uint64), ("length", np.int32), ("number", np.int32)])  # struct sh_slot
NAME = np.dtype([(name, np.int64) for name in ["start", "length", "object", "column", "inner", "met", "after", "line"]])


class NamesLayout(ctypes.Structure):
    """``struct sh_names``; ``list`` is an array of ``NAME``."""

    _fields_ = [
        ("list", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("text", ctypes.c_void_p),
        ("used", ctypes.c_int64),
        ("text_room", ctypes.c_int64),
        ("slots", ctypes.c_void_p),
        ("slot_mask", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
    ]


class ScanLayout(ctypes.Structure):
    """``struct sh_scan``."""

    _fields_ = [
        ("names", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
        ("column_count", ctypes.c_int64),
        ("first", ctypes.c_void_p),
        ("powers", ctypes.c_void_p),
        ("line", ctypes.c_int64),
        ("date_text", ctypes.c_int64),
        ("date_rest", ctypes.c_int64),
        ("date_day", ctypes.c_int64),
    ]


class CsvLayout(ctypes.Structure):
    """``struct sh_csv``."""

    _fields_ = [
        ("scan", ctypes.c_void_p),
        ("fields", ctypes.c_void_p),
        ("field_count", ctypes.c_int64),
        ("delimiter", ctypes.c_int64),
        ("quote", ctypes.c_int64),
        ("trailing", ctypes.c_int64),
        ("framed", ctypes.c_int64),
        ("comment", ctypes.c_char_p),
        ("comment_length", ctypes.c_int64),
        ("nulls", ctypes.c_char_p),
        ("null_ends", ctypes.c_void_p),
        ("null_count", ctypes.c_int64),
        ("null_lengths", ctypes.c_int64),
        ("quoted_null", ctypes.c_int64),
        ("longest", ctypes.c_int64),
        ("alone", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("rows", ctypes.c_void_p),
        ("stops", ctypes.c_void_p),
        ("odd", ctypes.c_void_p),
        ("odd_stops", ctypes.c_void_p),
        ("odd_count", ctypes.c_int64),
        ("open", ctypes.c_int64),
    ]


@lru_cache(maxsize=1)
def powers_of_five() -> npt.NDArray[np.uint64]:
    """The first 128 bits of 5^q for q from -342 to 308, the upper half first; those of inverses are rounded up."""
    found = []
    for power in range(LOWEST_POWER, HIGHEST_POWER + 1):
        five = 5 ** abs(power)
        if power >= 0:
            shift = 128 - five.bit_length()
            bits = five << shift if shift >= 0 else five >> -shift
        else:
            width = (five - 1).bit_length()
            bits = (1 << (width + 127 if power >= _EXACT_FROM else 2 * width + 128)) // five + 1
            bits >>= bits.bit_length() - 128
        found += [bits >> 64, bits & (2**64 - 1)]
    return np.array(found, np.uint64)
