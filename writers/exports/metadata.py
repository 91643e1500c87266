"""``_metadata`` and ``_common_metadata`` of a tree: footers without rows.

``_metadata`` has the row groups of all files, each with the path of its file. ``_common_metadata`` has none, and its
schema has the columns of directories before those of the files: by this Deephaven knows them. Both are Parquet files
of a magic and a footer. The footer entry ``deephaven`` is that of every file; ``_metadata`` has those of the single
files as ``deephaven_per_file_<path>``, with ``_`` for each ``/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.parquet.fields import field_of, file_schema
from sparkhaven.store.format.parquet.footer import KEY, Footer, encode_footer
from sparkhaven.store.format.parquet.trees import COMMON_METADATA, METADATA
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.write.parquet_sink import FileSink, parquet_writer

PER_FILE = b"deephaven_per_file_"


def write_metadata(
    fs: Fs, out: Path, root: Path, given: Sequence[Column], columns: Sequence[Column], paths: Sequence[str], codec: str
) -> list[Path]:
    """Writes both files of a tree into ``out``; ``paths``: its leaves below ``root``, in order. Returns the files.

    ``given``: the columns that directories give, the partitioning column first.
    """
    schema = file_schema(columns, Footer())
    common, whole = out / COMMON_METADATA, out / METADATA
    first = [pa.field(column.name, column.type.arrow, metadata=field_of(column).metadata) for column in given]
    _empty(fs, common, pa.schema([*first, *schema], schema.metadata), codec)
    own = {PER_FILE + path.replace("/", "_").encode(): encode_footer(Footer()) for path in paths}
    _empty(fs, whole, schema.with_metadata({KEY: encode_footer(Footer()), **own}), codec)
    _add_row_groups(fs, root, whole, paths)
    return [common, whole]


def _empty(fs: Fs, path: Path, schema: pa.Schema, codec: str) -> None:
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, schema, codec):
        pass


def _add_row_groups(fs: Fs, root: Path, whole: Path, paths: Sequence[str]) -> None:
    from pyarrow.parquet import read_metadata  # which other layouts do not need

    whole_footer = read_metadata(BytesIO(fs.read(whole)))
    for path in paths:
        size = fs.stat(root / path)
        try:
            footer = read_metadata(pa.BufferReader(fs.map(root / path, size.size if size else 0)))
        except (pa.ArrowException, OSError) as error:
            raise CorruptFileError(
                "leaf of a tree has a damaged footer",
                where=root / path,
                expected="a Parquet file",
                found=error,
                hint="remove the file, then run the same command again, which writes it again",
            ) from error
        footer.set_file_path(path)
        whole_footer.append_row_groups(footer)
    buffer = BytesIO()
    whole_footer.write_metadata_file(buffer)
    fs.write_new(whole, buffer.getvalue())
