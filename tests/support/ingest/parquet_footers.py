"""Parquet files that no writer here makes: their footers changed byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_PLAIN = b"\x15\x0c\x25\x02\x18\x01v\x00"  # BYTE_ARRAY, optional, named v
_ENUM = b"\x15\x0c\x25\x02\x18\x01v\x25\x08\x4c\x4c\x00\x00\x00"  # the same of converted and logical type ENUM


def enum_file(path: Path, values: Sequence[bytes | None]) -> Path:
    """A file with a column ``v`` of ENUM, as parquet-avro and parquet-protobuf write it."""
    pq.write_table(pa.table({"v": pa.array(values, pa.binary())}), path, store_schema=False)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert footer.count(_PLAIN) == 1
    changed = footer.replace(_PLAIN, _ENUM)
    path.write_bytes(data[: -8 - len(footer)] + changed + len(changed).to_bytes(4, "little") + b"PAR1")
    assert pq.ParquetFile(path).schema.column(0).logical_type.type == "ENUM"
    return path
