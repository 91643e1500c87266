"""Partition values of a Delta table: texts of the log, of which a timestamp may have no zone.

Such a text is local to the session of the Spark that wrote it, and the log does not say which zone that had. delta-rs
writes UTC. The footer of the data file tells which of them has written it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa

from sparkhaven.ingest.formats.parquet.file import ParquetFile, no_parquet
from sparkhaven.store.epochs.state.values import FileId
from sparkhaven.store.io.fs import Fs

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_IN_UTC = ("delta-rs ", "parquet-rs ")
SPARK_ZONE = "that of the Spark session that wrote the table"


def partition_values(
    fs: Fs, file: FileId, values: Mapping[str, str | None], instants: Callable[[], Collection[str]]
) -> dict[str, str | None]:
    """The values of a data file; timestamps without a zone get ``Z`` where they are in UTC.

    ``instants`` names the columns of type timestamp; it is only asked if a value looks like one. FeedError for a
    damaged file.
    """
    local = [name for name, text in values.items() if text is not None and _LOCAL.fullmatch(text)]
    local = [name for name in local if name in instants()] if local else []
    if not local or not _writer(fs, file).startswith(_IN_UTC):
        return dict(values)
    return {name: f"{text}Z" if name in local else text for name, text in values.items()}


def _writer(fs: Fs, file: FileId) -> str:
    try:
        return ParquetFile(fs, file, True).writer
    except (pa.ArrowException, OSError) as error:
        raise no_parquet(file.path, error, "restore the data file; nothing of it was committed") from error
