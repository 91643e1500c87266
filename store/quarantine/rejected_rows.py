"""The schema of rejected rows, from the task that rejects them to the quarantine.

One Arrow schema for scratch files of a batch and for files of requeued rows. ``SourcePartition`` and ``Position``
identify the row: path and line of a file (row of a Parquet file), topic/partition and offset.

================  ==================================================================================
``Reason``        a code of ``store.quarantine.reasons``, or an older one; ``Detail``: the explanation for this row
``Column``        null = the whole row
``Value``         the offending text, at most 1 KiB
``Payload``       the row as received, at most 1 MiB, truncated if ``PayloadBytes`` is more. For a Parquet file, whose
                  rows have no text, a JSON object; for a message its value, null if it had none
``Header``        names of the fields of a CSV record, as a JSON list; null for other formats
``Key``           key of a message, null if it has none
``SourceTime``    ns since the epoch: modification time of the file, timestamp of the message
================  ==================================================================================
"""

from __future__ import annotations

import io
from typing import TypedDict

import pyarrow as pa

REJECTED = pa.schema(
    [
        pa.field("SourcePartition", pa.string(), nullable=False),
        pa.field("Position", pa.int64(), nullable=False),
        pa.field("Reason", pa.string(), nullable=False),
        pa.field("Detail", pa.string()),
        pa.field("Column", pa.string()),
        pa.field("Expected", pa.string()),
        pa.field("Value", pa.string()),
        pa.field("Payload", pa.binary()),
        pa.field("PayloadBytes", pa.int64(), nullable=False),
        pa.field("Header", pa.string()),
        pa.field("Key", pa.binary()),
        pa.field("SourceTime", pa.int64()),
    ]
)


class RejectedRow(TypedDict):
    """One row of ``REJECTED``."""

    SourcePartition: str
    Position: int
    Reason: str
    Detail: str | None
    Column: str | None
    Expected: str | None
    Value: str | None
    Payload: bytes | None
    PayloadBytes: int
    Header: str | None
    Key: bytes | None
    SourceTime: int | None


def encode_rejected(rows: pa.Table) -> bytes:
    """Rows of schema ``REJECTED`` as a Parquet file, which Spark and we both read."""
    import pyarrow.parquet as pq  # which batches without bad rows do not need

    sink = io.BytesIO()
    pq.write_table(rows.cast(REJECTED), sink, compression="zstd", compression_level=1)
    return sink.getvalue()


def decode_rejected(data: pa.Buffer | bytes) -> pa.Table:
    import pyarrow.parquet as pq

    table: pa.Table = pq.read_table(pa.BufferReader(data))
    return table
