"""Where pyarrow writes a Parquet file: piece by piece through the one module that touches the disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.merge.sources.block_sizes import SIZES

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

DEFAULT_CODEC = "SNAPPY"
CODECS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}  # where pyarrow has another name


class FileSink:
    """A file to be written from its start, in pieces of ``piece`` bytes; the caller syncs it.

    After an error what is held is dropped.
    """

    def __init__(self, fs: Fs, path: Path, piece: int = SIZES.piece) -> None:
        self._fs, self._path, self._piece = fs, path, piece
        self._held = bytearray()
        self.size = 0
        self.closed = False

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._held.clear()
        self.close()

    def write(self, data: Any) -> int:
        self._held += data
        self.size += len(data)
        if len(self._held) >= self._piece:
            self.flush()
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        if self._held:
            self._fs.write_at(self._path, self.size - len(self._held), bytes(self._held))
            self._held.clear()

    def close(self) -> None:
        self.flush()
        self.closed = True


def parquet_writer(sink: FileSink, schema: pa.Schema, codec: str, dictionaries: tuple[str, ...] = ()) -> ParquetWriter:
    """A writer with statistics, page indexes and a checksum of each page; ``dictionaries`` are columns with few values.

    The Arrow schema is stored, as pyarrow drops the other entries of the footer without it.
    """
    from pyarrow.parquet import ParquetWriter  # which merges into column files do not need

    return ParquetWriter(
        pa.PythonFile(sink, "w"),
        schema,
        version="2.6",
        compression=CODECS.get(codec, codec),
        use_dictionary=list(dictionaries),
        write_statistics=True,
        write_page_index=True,
        write_page_checksum=True,
        store_schema=True,
    )
