"""The command ``export``: rows of one snapshot as a tree of files for other programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

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
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.errors import SettingsError, meant
from sparkhaven.store.format.parquet.trees import LAYOUTS
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.schema.document.vocabulary import MERGE_CODECS
from sparkhaven.store.types.model import Column
from sparkhaven.writers.transfer.export import Exported, ExportOutcome, export_path, export_tree
from sparkhaven.writers.transfer.export_plan import LEAVES, ExportOptions, rows_of

Word = TypeVar("Word", bound=str)


def register(app: typer.Typer) -> None:
    lines = (
        "export Nyc13.Flight --layout kv --out /data/flights",
        "export Nyc13.Flight --dates 2013-07-01..2013-07-31 --layout metadata --out /data/july --codec ZSTD",
    )
    done = "exported, or the same export is there already"
    usage = "wrong options, no such table, date or column, the directory has something else"
    retry = "another export into the directory runs, a volume is not mounted, no space on the disk"
    app.command(epilog=help_end(*lines, done=done, usage=usage, retry=retry))(export)


def export(
    ctx: typer.Context,
    name: TableArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=local_path, help="The directory to create.")],
    layout: Annotated[
        str,
        typer.Option(
            metavar="LAYOUT",
            help="nested (0/DATE/TABLE/table.parquet), flat, kv (COLUMN=DATE/), metadata (kv with _metadata) or hive ("
            "kv with a Locations table).",
        ),
    ] = "kv",
    dates: DatesOption = None,
    as_of: AsOfOption = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns. Default: all.")] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Columns that become directories COLUMN=VALUE below those of the date."),
    ] = None,
    tier: TierOption = "all",
    codec: Annotated[
        str | None, typer.Option(metavar="CODEC", help="Compression. Default: that of the schema, else SNAPPY.")
    ] = None,
    leaf: Annotated[
        str, typer.Option(metavar="FORMAT", help="parquet. In a hive tree also deephaven (column files).")
    ] = "parquet",
    replace: Annotated[bool, typer.Option("--replace", help="Replace another export in the directory.")] = False,
    skip_set_aside: SkipSetAsideOption = False,
    dry_run: DryRun = False,
) -> None:
    """Exports a snapshot as a tree of Parquet files.

    The tree appears as a whole, by one rename, after each file was read back. Its _manifest.json has the rows and a
    digest of each column. The same export again changes nothing.
    """
    cli: CliContext = ctx.obj
    fs, database = Fs(), cli.database()
    options = ExportOptions(
        _one_of("--layout", layout, LAYOUTS),
        _one_of("--leaf", leaf, LEAVES),
        _codec(codec),
        _names(columns),
        tuple(dates) if dates else None,
        tier,
        by=_names(by) or (),
    )
    begun = time.monotonic()
    target = export_path(fs, database, out)
    opened = pinned_of(open_table(database.root, name, as_of=as_of, skip_set_aside=skip_set_aside, fs=fs))
    exported = export_tree(
        fs,
        opened,
        target,
        options,
        now_ms=int(time.time() * 1000),
        replace_other=replace,
        dry_run=dry_run,
        on_progress=cli.note,
    )
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
    text = {
        ExportOutcome.PLANNED: f"would export {plan.rows:,} rows of {len(plan.dates):,} dates to {out}",
        ExportOutcome.UNCHANGED: f"{out} has this export already, {plan.rows:,} rows",
    }
    done = f"{plan.rows:,} rows of {len(plan.dates):,} dates to {out}, layout {plan.options.layout}"
    cli.result(record, text.get(exported.outcome, done))
    if closed:
        open_to_spark = ",".join(column.name for column in plan.columns if column.name not in closed) or "COLUMNS"
        types = "a LocalTime, or a decimal of more than 38 digits"
        cli.note(f"Spark opens no Parquet file with {types}: {', '.join(closed)}. For Spark: --columns {open_to_spark}")


def _spark_has(column: Column) -> bool:
    """Whether Spark opens a Parquet file with the column."""
    kind = column.type.arrow
    return not pa.types.is_time(kind) and not pa.types.is_decimal256(kind)


def _one_of(option: str, word: str, words: Sequence[Word]) -> Word:
    for known in words:
        if word == known:
            return known
    hint = meant(word, words) or None
    raise SettingsError(f"unknown {option}", expected=", ".join(words), found=repr(word), hint=hint)


def _codec(word: str | None) -> str | None:
    if word is None or word.upper() in MERGE_CODECS:
        return word and word.upper()
    raise SettingsError("unknown --codec", expected=", ".join(MERGE_CODECS), found=repr(word))


def _names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(part.strip() for part in columns.split(",") if part.strip())
