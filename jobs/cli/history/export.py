"""The command ``export``: rows of one snapshot as a tree of files for other programs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    AsOfOption,
    DatesOption,
    DryRun,
    SkipSetAsideOption,
    TableArgument,
    TierOption,
    help_end,
)
from sparkhaven.jobs.operations.exporting import ExportKeywords, export_snapshot
from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.store.errors import counted
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.types.model import Column
from sparkhaven.writers.transfer.export import Exported, ExportOutcome, export_path
from sparkhaven.writers.transfer.export_plan import rows_of


def register(app: typer.Typer) -> None:
    lines = (
        "export Nyc13.Flight --layout kv --out /data/flights",
        "export Nyc13.Flight --dates 2013-07-01..2013-07-31 --layout metadata --out /data/july --codec ZSTD",
    )
    done = "exported, or the same export is there already"
    usage = "wrong options, no such table, date or column, the directory has something else"
    retry = "another export into the directory runs, a volume is not mounted, no space on the disk"
    app.command(epilog=help_end(*lines, done=done, usage=usage, retry=retry))(export)


@dataclass(frozen=True, slots=True)
class ExportedRows:
    """Which rows and columns, of which snapshot."""

    dates: DatesOption = None
    as_of: AsOfOption = None
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns. Default: all.")] = None
    tier: TierOption = "all"
    skip_set_aside: SkipSetAsideOption = False


@dataclass(frozen=True, slots=True)
class TreeForm:
    """In which form they are written."""

    layout: Annotated[
        str,
        typer.Option(
            metavar="LAYOUT",
            help="nested (0/DATE/TABLE/table.parquet), flat, kv (COLUMN=DATE/), metadata (kv with _metadata) or hive ("
            "kv with a Locations table).",
        ),
    ] = "kv"
    by: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns that become directories COLUMN=VALUE below those of the date."),
    ] = None
    codec: Annotated[
        str | None, typer.Option(metavar="CODEC", help="Compression. Default: that of the schema, else SNAPPY.")
    ] = None
    leaf: Annotated[
        str, typer.Option(metavar="FORMAT", help="parquet. In a hive tree also deephaven (column files).")
    ] = "parquet"


def export(
    cli: CliContext,
    name: TableArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=local_path, help="The directory to create.")],
    rows: ExportedRows,
    form: TreeForm,
    replace: Annotated[bool, typer.Option("--replace", help="Replace another export in the directory.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Exports a snapshot as a tree of Parquet files.

    The tree appears as a whole, by one rename, after each file was read back. Its _manifest.json has the rows and a
    digest of each column. The same export again changes nothing.
    """
    table_place = cli.place(name)
    begun = time.monotonic()
    target = export_path(table_place.fs, table_place.layout, out)
    opened = open_place(table_place, as_of=rows.as_of, skip_set_aside=rows.skip_set_aside)
    words = ExportKeywords(
        layout=form.layout,
        dates=rows.dates,
        columns=_names(rows.columns),
        by=_names(form.by),
        tier=rows.tier,
        codec=form.codec,
        leaf=form.leaf,
        replace=replace,
    )
    exported = export_snapshot(table_place, opened, out, words, cli.note, dry_run=dry_run)
    _show(cli, name, target, exported, opened.epochs, time.monotonic() - begun)


def _show(cli: CliContext, name: str, out: Path, exported: Exported, epochs: dict[str, int], seconds: float) -> None:
    plan, manifest = exported.plan, exported.manifest
    closed = [column.name for column in plan.columns if plan.options.leaf == "parquet" and not _spark_has(column)]
    record = {
        "table": name,
        "layout": plan.options.layout,
        "leaf": plan.options.leaf,
        "out": str(out),
        "outcome": exported.outcome,
        "rows": plan.rows,
        "files": len(manifest.leaves) if manifest else None if plan.by else len(plan.dates),
        "bytes": manifest.bytes if manifest else None,
        "dates": {date: rows_of(slices) for date, slices in plan.dates},
        "columns": [column.name for column in plan.columns],
        "by": [column.name for column in plan.by],
        "closed_to_spark": closed,
        "codec": plan.codec,
        "digests": dict(manifest.digests) if manifest else {},
        "id": plan.id,
        "epoch": epochs,
        "seconds": round(seconds, 3),
        "dry_run": exported.outcome is ExportOutcome.PLANNED,
    }
    rows = counted(plan.rows, "row")
    done = f"{rows} of {counted(len(plan.dates), 'date')} to {out}"
    text = {
        ExportOutcome.PLANNED: f"would export {done}",
        ExportOutcome.UNCHANGED: f"{out} has this export already, {rows}",
    }
    cli.result(record, text.get(exported.outcome, f"{done}, layout {plan.options.layout}"))
    if closed:
        open_to_spark = ",".join(column.name for column in plan.columns if column.name not in closed) or "COLUMNS"
        types = "a LocalTime, or a decimal of more than 38 digits"
        cli.note(f"Spark opens no Parquet file with {types}: {', '.join(closed)}. For Spark: --columns {open_to_spark}")


def _spark_has(column: Column) -> bool:
    """Whether Spark opens a Parquet file with the column."""
    kind = column.type.arrow
    return not pa.types.is_time(kind) and not pa.types.is_decimal256(kind)


def _names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(part.strip() for part in columns.split(",") if part.strip())
