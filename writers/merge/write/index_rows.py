"""Which rows of a staged location have which keys: what an index over any columns stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.fixed import encode_entries
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import positions
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.codings.row_ranges_codec import encode_sets
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.types.row_ranges import Positions
from sparkhaven.writers.merge.plan.argsort import argsort
from sparkhaven.writers.merge.plan.sort_keys import Words, ordinals, rank_ordinals, ranked_symbols


@frozen
class KeyRows:
    """The keys, ascending, one array a column, and the ranges of rows of key ``i``: from ``bounds[i]`` on."""

    keys: tuple[pa.Array, ...]
    starts: Positions
    stops: Positions
    bounds: Positions

    def sets(self) -> list[bytes]:
        """The row set of each key."""
        return encode_sets(self.starts, self.stops, self.bounds)


def key_words(array: pa.Array, column: Column) -> Words:
    """Words that are ordered and equal as the keys of an index are: null first, all NaN equal."""
    if column.storage is Storage.FIXED:
        return ordinals(encode_entries(array, column.type), column.type)
    if pa.types.is_dictionary(array.type):
        _, (lut,) = ranked_symbols([array.dictionary])
        return rank_ordinals(np.where(_valid(array.indices), lut[_ids(array.indices)], np.int32(-(2**31))))
    _, (lut,) = ranked_symbols([array])
    return rank_ordinals(lut[:-1])


def _ids(indices: pa.Array) -> npt.NDArray[np.int32]:
    ids: npt.NDArray[np.int32] = indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ids


def _valid(indices: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = indices.is_valid().to_numpy(zero_copy_only=False)
    return valid


def group_rows(fs: Fs, location: Path, column: Column, sizes: Mapping[str, int], rows: int) -> KeyRows:
    """The keys of a column whose equal values stand together, each with one range."""
    array = open_column(fs, location, column, sizes, rows).read()
    words = key_words(array, column)
    firsts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(words[1:] != words[:-1]) + 1))
    order = np.argsort(words[firsts], kind="stable")
    starts, stops = firsts[order], np.append(firsts[1:], rows)[order]
    return KeyRows((_plain(array.take(positions(starts))),), starts, stops, np.arange(len(starts) + 1))


def key_rows(fs: Fs, location: Path, columns: Sequence[Column], sizes: Mapping[str, int], rows: int) -> KeyRows:
    """The keys of a location of ``rows`` rows and where they are. In memory are these columns, and 16 bytes a row."""
    arrays = [open_column(fs, location, column, sizes, rows).read() for column in columns]
    words = [key_words(array, column) for array, column in zip(arrays, columns, strict=True)]
    order = argsort(words)
    fresh = np.ones(rows, np.bool_)
    fresh[1:] = False
    for word in words:
        ordered = word[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    del words
    firsts = positions(order[fresh].astype(np.int64))
    keys = tuple(_plain(array.take(firsts)) for array in arrays)
    breaks = fresh.copy()
    breaks[1:] |= order[1:] != order[:-1] + np.uint32(1)
    edges = np.flatnonzero(breaks)
    starts = order[edges].astype(np.int64)
    stops = order[np.append(edges[1:], rows) - 1].astype(np.int64) + 1
    return KeyRows(keys, starts, stops, np.append(np.searchsorted(edges, np.flatnonzero(fresh)), len(edges)))


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
