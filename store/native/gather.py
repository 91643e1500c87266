"""Entries in another order, and counted: by the compiled core, else by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

Ids = npt.NDArray[np.int32]
COUNT_ROWS = 1 << 18


def gather(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32], out: npt.NDArray[Any]) -> None:
    """``entries[order]`` into ``out``. IndexError: an index is out of range."""
    library = core()
    if library is None or not (entries.flags.c_contiguous and order.flags.c_contiguous):
        plain_gather(entries, order, out)
        return
    arguments = address(order), len(order), address(out)
    if library.sh_gather(address(entries), entries.dtype.itemsize, len(entries), *arguments) != len(order):
        raise IndexError(f"an index is not below {len(entries)}")


def gathered(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
    out = np.empty(len(order), entries.dtype)
    gather(entries, order, out)
    return out


def plain_gather(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32], out: npt.NDArray[Any]) -> None:
    np.take(entries, order.astype(np.intp), out=out)


def gather_ids(ids: Ids, order: npt.NDArray[np.uint32], table: Ids, out: Ids) -> None:
    """``ids[order]``, each looked up in ``table``, into ``out``; the null finds the table's last entry.

    IndexError: an index is out of range.
    """
    library = core()
    if library is None or not (ids.flags.c_contiguous and order.flags.c_contiguous and table.flags.c_contiguous):
        plain_gather_ids(ids, order, table, out)
        return
    arguments = address(order), len(order), address(table), len(table), address(out)
    if library.sh_gather_ids(address(ids), len(ids), *arguments) != len(order):
        raise IndexError(f"an index is not below {len(ids)}, or the table is empty")


def plain_gather_ids(ids: Ids, order: npt.NDArray[np.uint32], table: Ids, out: Ids) -> None:
    picked = np.take(ids, order.astype(np.intp)).view(np.uint32)
    np.take(table, np.minimum(picked, np.uint32(len(table) - 1)), out=out)


def count_ids(ids: Ids, counts: npt.NDArray[np.int64]) -> None:
    """Adds to ``counts`` how often each id is there; the last entry counts the null. ValueError: there is none."""
    if not len(counts):
        raise ValueError("there is no count for null")
    library = core()
    if library is None or not (ids.flags.c_contiguous and counts.flags.c_contiguous):
        plain_count_ids(ids, counts)
    else:
        library.sh_count_ids(address(ids), len(ids), address(counts), len(counts))


def plain_count_ids(ids: Ids, counts: npt.NDArray[np.int64], rows: int = COUNT_ROWS) -> None:
    last = np.uint32(len(counts) - 1)
    stride = max(rows, len(counts))  # counting makes copies of 8 bytes a row
    for first in range(0, len(ids), stride):
        part = np.minimum(ids[first : first + stride].view(np.uint32), last)
        counts += np.bincount(part, minlength=len(counts))
