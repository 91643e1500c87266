"""Column files as a writer of the other byte order makes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparkhaven.store.format.column.prefix import DATA_OFFSET
from sparkhaven.store.format.java.java_values import JInt, JLong
from sparkhaven.store.format.java.object_writer import dumps
from sparkhaven.store.types.model import Column


def big_endian(directory: Path, column: Column, offset: int = 2 * DATA_OFFSET, **more: str) -> None:
    """Turns a column's little-endian files, without a grouping, into those of a big-endian writer.

    The data begin at ``offset``; ``more`` are further keys of the prefix.
    """
    dat = directory / f"{column.name}.dat"
    content = dat.read_bytes()[DATA_OFFSET:]
    prefix = dumps(
        {
            "version": JInt(1),
            "byteOrder": "BIG_ENDIAN",
            "dataOffset": JLong(offset),
            "dataType": column.type.java,
            "width": JInt(column.width),
            **({} if column.encoding is None else {"encoding": column.encoding}),
            "columnId": JInt(column.id),
            "overflow": False,
            "metadata": None,
            **more,
        }
    )
    if column.type.fixed is None:  # the bytes of a codec are the same in either order
        content = np.frombuffer(content, f"<i{column.width}").byteswap().tobytes()
    dat.write_bytes(prefix.ljust(offset, b"\0") + content)
    sym = directory / f"{column.name}.sym"
    if sym.exists():
        sym.write_bytes(np.frombuffer(sym.read_bytes(), "<i8").byteswap().tobytes())
