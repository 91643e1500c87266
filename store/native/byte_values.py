"""Values of bytes, each a text with base64 or a JSON text, by the compiled core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.json_lists import JsonLists
from sparkhaven.store.native.library import core

BASE64, STRING, STRING_OR_ARRAY = range(3)
"""What a text is: base64; a JSON string with it; or that, or a JSON array of numbers from -128 to 127."""


def byte_values(texts: pa.StringArray, form: int) -> tuple[pa.BinaryArray, npt.NDArray[np.bool_] | None] | None:
    """Bytes of each text, null where that is null or in doubt; and which are. None: there is no core.

    Texts of another form are in doubt, and base64 that has bits which no byte has.
    """
    library = core()
    if library is None:
        return None
    values = JsonLists.of(texts)
    octets = np.empty(max(values.size, 1), np.uint8)
    written = address(values.list_ends), address(octets), address(values.doubt)
    library.sh_byte_values(*values.arguments, form, *written)
    return values.blobs(octets[: values.list_ends[-1]])
