"""A pinned snapshot as the plan that Java reads, or the reason why Python reads it.

Java's source asks Python's for a plan by three options of a read, which it adds to those of the user.
``sparkhaven.plan`` names a file that does not exist. ``schema`` writes it: a plan (``plan_file``), or ``SHVREASN`` and
in UTF-8 the reason why Python reads. Java takes it and removes it as soon as ``schema`` has ended, with an error too.
``sparkhaven.jar`` is the digest of the sources of Java's jar: for another one than ours no plan is made.
``sparkhaven.reader`` is the reader that the session's setting names; the option ``reader`` has precedence.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.batch import shown_columns
from sparkhaven.readers.spark.jvm.column_forms import has_decoder
from sparkhaven.readers.spark.jvm.jar import jar_digest
from sparkhaven.readers.spark.jvm.plan_file import encode_plan, write_plan
from sparkhaven.readers.spark.options import DEFAULT_READER, ReadOptions
from sparkhaven.readers.spark.spark_types import require_exact
from sparkhaven.store.errors import SettingsError, SparkhavenError
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


PLAN, JAR, READER = "sparkhaven.plan", "sparkhaven.jar", "sparkhaven.reader"
REASON = b"SHVREASN"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """``path``: where the answer belongs. ``jar``: the digest of the sources of the jar that asks. ``reader``: the
    option of that name, else what the session's setting names.
    """

    path: Path
    jar: str
    reader: str

    def answer(self, table: PinnedTable, options: ReadOptions) -> bool:
        """Writes the plan or the reason; whether Java reads. SettingsError: the option asks for Java, which cannot."""
        plan = self._refusal(options) or make_plan(table, options)
        write_plan(self.path, plan if isinstance(plan, bytes) else REASON + plan.encode())
        return isinstance(plan, bytes)

    def _refusal(self, options: ReadOptions) -> str | None:
        try:
            ours = jar_digest()
        except SettingsError as error:
            reason = error.what
        else:
            if self.jar == ours:
                return None
            reason = "the jar in the session is not of this installation's release"
        if options.reader == "jvm":
            raise refused(reason)
        # the process that plans may have imported another sparkhaven than the one that the session's jar is of
        warnings.warn(f"Spark reads tables by the Python of {Path(__file__).parents[3]}: {reason}", stacklevel=2)
        return reason


def split_request(options: Mapping[str, str]) -> tuple[dict[str, str], PlanRequest | None]:
    """The options of the user by their names in small letters, and what Java's source asks for.

    None: Spark has loaded Python's source alone.
    """
    given = {name.lower(): text for name, text in options.items()}
    plan, jar, setting = (given.pop(name, None) for name in (PLAN, JAR, READER))
    if plan is None or jar is None:
        return given, None
    return given, PlanRequest(Path(plan), jar, given.get("reader") or setting or DEFAULT_READER)


def make_plan(table: PinnedTable, options: ReadOptions) -> bytes | str:
    """The plan of a table for these options of a read; a text is the reason why Python reads.

    What cannot be planned is Python's: its source tells the error when a query runs. SettingsError: the option
    ``reader`` asks for Java, which cannot read this.
    """
    try:
        plan = _plan(table, options)
    except SparkhavenError as error:
        if options.reader == "jvm":
            raise
        return f"it cannot be planned: {error.what}"
    if isinstance(plan, str) and options.reader == "jvm":
        raise refused(plan)
    return plan


def refused(reason: str) -> SettingsError:
    """The error where the option ``reader`` asks for Java, which cannot read."""
    return SettingsError(
        "Java cannot read this",
        where="option reader",
        expected="reader=auto",
        found=reason,
        hint="leave the option out",
    )


def _plan(table: PinnedTable, options: ReadOptions) -> bytes | str:
    reason = why_python(options)
    if reason is not None:
        return reason
    columns = shown_columns(table, options)
    slices = table.plan(dates=options.dates, sources=options.sources, tier=options.tier).slices
    require_exact(slices, columns, options)
    return why_python_reads(slices, columns) or encode_plan(table, slices, columns, options)
