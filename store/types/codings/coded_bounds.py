"""The least and the largest value of a column with a codec, as whole numbers, which statistics compare."""

from __future__ import annotations

from decimal import Context

import pyarrow as pa
import pyarrow.compute as pc

_WIDE = Context(prec=100)


def coded_bounds(values: pa.Array) -> tuple[int, int] | None:
    """Of dates days, of times nanoseconds of the day, of decimals units of their last digit; not all may be null.

    None for values that have no order, and for decimals whose bounds a long does not hold.
    """
    kind, kinds = values.type, pa.types
    if kinds.is_date32(kind) or kinds.is_time64(kind):
        bounds = pc.min_max(values.view(pa.int32() if kinds.is_date32(kind) else pa.int64()))
        return bounds["min"].as_py(), bounds["max"].as_py()
    if not kinds.is_decimal(kind):
        return None
    bounds = pc.min_max(values)
    low, high = (int(bounds[end].as_py().scaleb(kind.scale, _WIDE)) for end in ("min", "max"))
    return (low, high) if low > -(2**63) and high < 2**63 else None
