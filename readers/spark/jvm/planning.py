"""A pinned snapshot as the plan that Java reads, or the reason why Python reads it."""

from __future__ import annotations

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.batch import shown_columns
from sparkhaven.readers.spark.jvm.plan_file import encode_plan
from sparkhaven.readers.spark.jvm.reader_choice import why_python, why_python_reads
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.spark_types import require_exact
from sparkhaven.store.errors import SettingsError, SparkhavenError


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
