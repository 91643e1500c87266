"""Which source reads a table, and why: Java's, or Python's, which knows everything."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkhaven.readers.spark.jvm.coded_values import has_decoder
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.format.parquet.location_files import in_parquet
from sparkhaven.store.io.system_errors import as_storage_errors
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.null_char import has_other_null
from sparkhaven.store.users.user_table import is_user_table


def why_python(options: ReadOptions) -> str | None:
    """Why Python must read, known before the table is opened; None: Java may do it. StorageError."""
    if options.reader == "python":
        return "the option reader, or the session's setting, says so"
    if options.where is not None:
        return "the option where is an expression of Python's reader"
    with as_storage_errors():
        if is_user_table(options.place):
            return f"{options.place.table} is a table of a user, whose files other programs write"
    return None


def why_python_reads(slices: Sequence[Slice], columns: Sequence[Column]) -> str | None:
    """Why Python must read these slices; None: Java does it, with the same rows and errors."""
    for column in columns:
        coding = column.type.coding
        if coding is not None and coding.form != "set" and not has_decoder(coding):
            return f"column {column.name} has the type {column.type.name}"
    unfit = next((column for column in columns if not _fits_parquet(column)), None)
    parquet = next((slice_ for slice_ in slices if in_parquet(slice_.files)), None) if unfit is not None else None
    if unfit is not None and parquet is not None:
        return f"column {unfit.name} has the type {unfit.type.name}, and {parquet.directory} is in Parquet"
    return None


def _fits_parquet(column: Column) -> bool:
    """Whether Spark's own reader of Parquet has the values: it has decimals of 38 digits at most."""
    return not (pa.types.is_decimal256(column.type.arrow) or has_other_null(column))
