"""Arrow's compute functions, imported with the first that is called: a short read does without, and they take long."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# without options these are nothing but a call by name, which needs a small part of the module
BY_NAME = frozenset(
    "dictionary_encode drop_null filter invert is_nan is_null is_valid min_max sum take unique".split()  # noqa: SIM905
)

FEW = 64  # values that plain Python handles sooner than a call of one of these functions takes


class _Kernels:
    """``pc.sum`` and all others, as in ``pyarrow.compute``; those ``BY_NAME`` without options."""

    def __getattr__(self, name: str) -> Any:
        kernel = self.__dict__[name] = _found(name)  # the next call finds it without us
        return kernel


def _found(name: str) -> Any:
    if name in BY_NAME:
        return partial(_call, name)
    if name == "fill_null":
        return _fill_null
    from pyarrow import compute

    return getattr(compute, name)


def _call(name: str, *values: Any) -> Any:
    from pyarrow._compute import call_function  # pyarrow.compute makes a function with a docstring for each kernel

    return call_function(name, list(values))


def _fill_null(values: Any, value: Any) -> Any:
    if not isinstance(value, pa.Scalar | pa.Array | pa.ChunkedArray):
        value = pa.scalar(value, values.type)
    elif value.type != values.type:
        value = pa.scalar(value.as_py(), values.type)
    return _call("coalesce", values, value)


def positions(indices: npt.NDArray[Any]) -> pa.Array:
    """Whole numbers without null as an array, not copied: ``pa.array`` would first import numpy's masked arrays."""
    kind = pa.from_numpy_dtype(indices.dtype)
    return pa.Array.from_buffers(kind, len(indices), [None, pa.py_buffer(np.ascontiguousarray(indices))])


def null_mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are null, as their bitmap says; of a dictionary, which rows have no index."""
    if pa.types.is_null(values.type):
        return np.ones(len(values), np.bool_)
    bits, first = values.buffers()[0], values.offset
    if bits is None:
        return np.zeros(len(values), np.bool_)
    valid = np.unpackbits(np.frombuffer(bits, np.uint8)[first // 8 :], count=first % 8 + len(values), bitorder="little")
    null: npt.NDArray[np.bool_] = valid[first % 8 :] == 0
    return null


pc = _Kernels()
