"""Bytes of row sets, held against what a row set is, by the compiled core; None where ``blobs`` returns it too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.buffers import TextBuffers, address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.byte_array import ByteArrays
from sparkhaven.store.types.codings.coding import Coding, Ends, Mask, Octets, some
from sparkhaven.store.types.codings.row_set import RowSets


def doubtful_sets(array: pa.Array) -> Mask | None:
    """Which values the core does not know to be row sets; None: there is no core, or the array is no binary."""
    library = core()
    if library is None or array.type != pa.binary() or array.buffers()[1] is None or not len(array):
        return None
    sets, doubt = TextBuffers.of(array), np.empty(len(array), np.uint8)
    where = sets.ends + 4 * sets.first, sets.valid, sets.first, len(array), sets.data, sets.size
    library.sh_row_sets(*where, address(doubt))
    return doubt.view(np.bool_)


def unstorable_values(array: pa.Array, coding: Coding) -> Mask | None:
    """What ``coding.unstorable`` says, which has to look only at the row sets that are in doubt."""
    doubt = doubtful_sets(array) if isinstance(coding, RowSets) else None
    if doubt is None:
        return coding.unstorable(array)
    if doubt.any():
        wrong = coding.unstorable(array.filter(pa.array(doubt)))
        doubt[doubt] = False if wrong is None else wrong
    return some(doubt)


def encode_row_sets(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    doubt = doubtful_sets(array)
    if doubt is None or doubt.any():
        return None
    ends, data, _ = ByteArrays().encode(array)
    return ends, data


def decode_row_sets(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """binary, not copied."""
    array, _ = ByteArrays().decode(ends, data)
    doubt = doubtful_sets(array)
    return None if doubt is None or doubt.any() else array
