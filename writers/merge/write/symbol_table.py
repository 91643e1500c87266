"""The symbol table of a column of a merged location."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.format.column.symbols import encode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.sort_keys import picked


def write_symbols(
    fs: Fs, plan: MergePlan, destination: int, column: Column, used: npt.NDArray[np.bool_], union: pa.Array
) -> None:
    """Writes the symbol table of a column of a destination: the texts of the union that are in use there."""
    location = plan.destinations[destination].stage(plan.table, plan.value)
    files = [location / name for name in column.files[1:]]
    sizes, most = [0] * len(files), plan.options.sizes.symbols
    for path in files:
        fs.write_new(path, b"")
    for first in range(0, len(union), most):
        texts = picked(union.slice(first, most), np.flatnonzero(used[first : first + most]))
        parts = encode_symbols(texts, charset_of(column), sizes[-1]) if len(texts) else ()
        for number, data in enumerate(parts):
            fs.write_at(files[number], sizes[number], data)
            sizes[number] += len(data)
