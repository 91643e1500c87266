"""Values of any length, to what a codec makes of them and back, by the compiled core.

Functions return None where there is no core, for other codings, and where the core is in doubt about one value: the
coding then takes all of them, and says which are wrong.
"""

from __future__ import annotations

import pyarrow as pa

from sparkhaven.store.native.codings.free_decimals import decode_numbers, encode_numbers
from sparkhaven.store.native.codings.instant_arrays import decode_instants, encode_instants
from sparkhaven.store.native.codings.java_arrays import decode_arrays, encode_arrays
from sparkhaven.store.native.codings.row_sets import decode_row_sets, encode_row_sets
from sparkhaven.store.native.codings.string_arrays import decode_texts, encode_texts
from sparkhaven.store.native.codings.string_maps import decode_maps, encode_maps
from sparkhaven.store.types.codings.coding import BlobCoding, Ends, Octets
from sparkhaven.store.types.codings.decimals.free_decimals import FreeDecimals
from sparkhaven.store.types.codings.instant_array import InstantArrays
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_array import StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps


def encode_blobs(array: pa.Array, coding: BlobCoding) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    if isinstance(coding, JavaArrays):
        return encode_arrays(array, coding)
    if isinstance(coding, InstantArrays):
        return encode_instants(array)
    if isinstance(coding, StringArrays):
        return encode_texts(array)
    if isinstance(coding, StringMaps):
        return encode_maps(array, coding)
    if isinstance(coding, FreeDecimals):
        return encode_numbers(array, coding)
    return encode_row_sets(array) if isinstance(coding, RowSets) else None


def decode_blobs(ends: Ends, data: pa.Buffer, coding: BlobCoding) -> pa.Array | None:
    """Values by their ``len(ends) - 1`` ranges in ``data``."""
    if isinstance(coding, JavaArrays):
        return decode_arrays(ends, data, coding)
    if isinstance(coding, InstantArrays):
        return decode_instants(ends, data)
    if isinstance(coding, StringArrays):
        return decode_texts(ends, data)
    if isinstance(coding, StringMaps):
        return decode_maps(ends, data, coding)
    if isinstance(coding, FreeDecimals):
        return decode_numbers(ends, data, coding)
    return decode_row_sets(ends, data) if isinstance(coding, RowSets) else None
