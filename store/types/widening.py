"""Which types a column may become beside its rows, and its values on the way between two of its forms.

Every value of a form has one of each wider form, and null stays null, so that files of all forms read as one column.
The way back is for rows that go to a location from before the widening, whose files keep their form.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.types.model import Column, Storage

WIDER = {
    "byte": ("short", "int", "long"),
    "short": ("int", "long"),
    "int": ("long",),
    "float": ("double",),
}


def widens(old: Column, new: Column) -> bool:
    """Whether a column may take the form of ``new``: a wider number, or text of its own in place of symbols."""
    if old.type.name == "String":
        text = new.type.name == "String" and old.encoding == new.encoding
        return text and (old.storage, new.storage) == (Storage.SYMBOL, Storage.BLOB)
    return new.type.name in WIDER.get(old.type.name, ())


def same_form(one: Column, other: Column) -> bool:
    """True if both columns have the same on-disk encoding."""
    return one.type == other.type and one.storage is other.storage


def widened(values: pa.Array, column: Column) -> pa.Array:
    """Values of an earlier form of a column in the type in which the column is read."""
    return values.cast(column.type.arrow)


def fitting(values: pa.Array, form: Column) -> npt.NDArray[np.bool_]:
    """Which values of a widened column an earlier form of it can have: whole numbers exactly, others as it rounds.

    A number that means null in that form has no place in it.
    """
    if form.storage is Storage.SYMBOL or values.null_count == len(values):
        return np.ones(len(values), np.bool_)
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(form.type.arrow):
        bounds = np.iinfo(form.type.arrow.to_pandas_dtype())
        return np.asarray((numbers > bounds.min) & (numbers <= bounds.max))
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float32)
    return np.asarray((np.isfinite(rounded) | ~np.isfinite(numbers)) & (rounded != np.float32(form.type.null)))


def narrowed(values: pa.Array, form: Column) -> pa.Array:
    """Values that fit an earlier form of their column, in its type."""
    return values if form.storage is Storage.SYMBOL else values.cast(form.type.arrow, safe=False)
