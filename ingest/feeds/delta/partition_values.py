"""Partition values of a Delta table: texts of the log, of which a timestamp may have no zone.

Such a text is local to the session of the Spark that wrote it, and the log does not say which zone that had. delta-rs
writes UTC. The footer of the data file tells which of them has written it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.formats.parquet.parquet_batches import ParquetFile, no_parquet
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_DECIMAL = re.compile(r"decimal\(([1-9]|[12]\d|3[0-8]), ?(\d{1,2})\)")
_TYPES = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
          "double": pa.float64(), "binary": pa.binary()}  # fmt: skip
_IN_UTC = ("delta-rs ", "parquet-rs ")
SPARK_ZONE = "that of the Spark session that wrote the table"


def partition_values(
    fs: Fs, file: FileId, values: Mapping[str, str | None], types: Mapping[str, str | None]
) -> Mapping[str, str | None]:
    """The values of a data file by column; ``types`` are those of the columns of its table.

    Timestamps without a zone get ``Z`` where they are in UTC. FeedError for a damaged file.
    """
    local = [name for name, text in values.items() if text is not None and _LOCAL.fullmatch(text)]
    local = [name for name in local if types.get(name) == "timestamp"]
    if not local or not _writer(fs, file).startswith(_IN_UTC):
        return values
    return {name: f"{text}Z" if name in local else text for name, text in values.items()}


def typed_values(values: Mapping[str, str | None], types: Mapping[str, str | None]) -> dict[str, pa.Scalar]:
    """The values of columns that the table declares as numbers or bytes, as such; without those that are none.

    The bytes of a text are those of UTF-8, as Spark reads and writes them.
    """
    typed: dict[str, pa.Scalar] = {}
    for name, text in values.items():
        kind = _type_of(types.get(name))
        if text is not None and kind is not None:
            with suppress(pa.ArrowInvalid):  # the text says in a bad row what is wrong
                typed[name] = pa.scalar(text).cast(kind)
    return typed


def _type_of(declared: str | None) -> pa.DataType | None:
    if declared is not None and (digits := _DECIMAL.fullmatch(declared)):
        return pa.decimal128(int(digits[1]), int(digits[2]))
    return _TYPES.get(declared or "")


def _writer(fs: Fs, file: FileId) -> str:
    try:
        return ParquetFile(PlannedFile(fs, file), True).writer
    except (pa.ArrowException, OSError) as error:
        raise no_parquet(file.path, error, "restore the data file. Nothing of it was committed") from error
