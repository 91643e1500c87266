"""How many bytes of a feed file make one row, guessed from its head before the file is read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.ingest.content.packing import packing_of_name
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.spec.payload_formats import Format
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs

PACKED = 8.0  # times that text shrinks, about, when it is packed


def row_bytes(fs: Fs, file: FileId, kind: Format) -> float:
    """Bytes on disk for each row. Parquet tells exactly; of text the first chunk is counted."""
    form, planned = FORMATS[kind], PlannedFile(fs, file)
    if not file.size:
        return form.row_bytes
    try:
        if not form.is_text:
            rows: int = pq.ParquetFile(pa.PythonFile(planned.stream(), mode="r")).metadata.num_rows
            return file.size / max(rows, 1)
        head = next(planned.chunks(), b"")
    except (SparkhavenError, pa.ArrowException, OSError):
        return form.row_bytes  # whoever decodes the file says what is wrong with it
    size = len(head) / max(head.count(b"\n"), 1) if head else form.row_bytes
    return size / PACKED if packing_of_name(file.path) is not None else size
