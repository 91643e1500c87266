"""Statistics of the rows that one append adds to one column; readers use them to skip ranges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparkhaven.store.epochs.state.statistics import clipped
from sparkhaven.store.lazy_compute import FEW, pc
from sparkhaven.store.types.committed_columns import RangeStats, Scalar


def range_stats(values: pa.Array, start: int) -> RangeStats:
    """Statistics of ``values`` as rows ``[start, start + len)``; NaNs are counted apart and are no bound."""
    base = RangeStats(start, start + len(values), nulls=values.null_count)
    if base.nulls == len(values):
        return base
    kind = values.type
    if pa.types.is_dictionary(kind) and len(values) > FEW:
        used = np.zeros(len(values.dictionary), np.bool_)
        used[pc.drop_null(values.indices).to_numpy()] = True
        bits = pa.py_buffer(np.packbits(used, bitorder="little"))
        return _strings(base, pc.filter(values.dictionary, pa.Array.from_buffers(pa.bool_(), len(used), [None, bits])))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return _strings(base, values)
    if pa.types.is_floating(kind):
        return _floats(base, values)
    if pa.types.is_timestamp(kind):
        numbers = values.view(pa.int64())
        return replace(_bounded(base, numbers), exact_us=_whole_microseconds(numbers))
    return _bounded(base, values)


def _bounded(base: RangeStats, values: pa.Array) -> RangeStats:
    if len(values) <= FEW and not pa.types.is_floating(values.type):
        plain = [value for value in values.to_pylist() if value is not None]
        return replace(base, low=min(plain, default=None), high=max(plain, default=None))
    bounds = pc.min_max(values)
    return replace(base, low=_plain(bounds["min"]), high=_plain(bounds["max"]))


def _plain(value: pa.Scalar) -> Scalar | None:
    plain: Scalar | None = value.as_py()
    return plain


def _strings(base: RangeStats, values: pa.Array) -> RangeStats:
    return clipped(_bounded(base, values))


def _floats(base: RangeStats, values: pa.Array) -> RangeStats:
    nan = pc.is_nan(values)
    nans = pc.sum(nan).as_py() or 0
    if not nans:
        return _bounded(base, values)
    base = replace(base, nans=nans)
    if nans + base.nulls == len(values):
        return base
    return _bounded(base, pc.filter(values, pc.invert(nan)))


def _whole_microseconds(numbers: pa.Array) -> bool:
    raw = (pc.drop_null(numbers) if numbers.null_count else numbers).to_numpy()
    return not bool(np.any(raw % 1000))
