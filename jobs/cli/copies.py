"""Commands that copy tables: ``snapshot``, ``restore`` and ``mirror`` whole, ``export`` as files for other programs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from sparkhaven.jobs.cli.context import CliContext, stopped_by_signals
from sparkhaven.jobs.cli.options import (
    AsOfOption,
    DatesOption,
    DirectIo,
    DryRun,
    EpochOption,
    SkipSetAsideOption,
    TableArgument,
    TierOption,
    epochs_named,
    help_end,
    seconds_of,
)
from sparkhaven.jobs.operations.exporting import ExportKeywords, export_snapshot
from sparkhaven.readers.arrow.opening import known_tables, open_place, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import SettingsError, TableNotFoundError, counted
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import require_database
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.types.model import Column
from sparkhaven.writers.transfer.content import CopiedTable
from sparkhaven.writers.transfer.export import Exported, ExportOutcome, export_path
from sparkhaven.writers.transfer.export_plan import rows_of
from sparkhaven.writers.transfer.restore import RestoredTable
from sparkhaven.writers.transfer.restore import restore as restore_tables
from sparkhaven.writers.transfer.snapshots import Mirror, TakenSnapshot, snapshot_path, take_snapshot

Names = Annotated[list[str] | None, typer.Argument(metavar="[NS.T]...", help="Default: all tables but log tables.")]


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


def register(app: typer.Typer) -> None:
    lines = "snapshot --out /backup/monday", "snapshot Nyc13.Flight --out /backup/tuesday --since /backup/monday"
    usage = "wrong options, no such table or epoch, something is in the directory"
    retry = "rows were removed again and again, another snapshot into the directory runs, no space on the disk"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(snapshot)
    lines = "restore /backup/monday", "restore /backup/monday Nyc13.Flight --replace Nyc13.Flight"
    done = "restored, or the same rows are there already"
    bad_data = "damaged snapshot: nothing was put in place"
    usage = "no snapshot, no such table in it, a table is there already"
    retry = "a process writes the table, another restore runs, no space on the disk"
    app.command(epilog=help_end(*lines, done=done, bad_data=bad_data, usage=usage, retry=retry))(restore)
    lines = "mirror /data/db /standby/db", "mirror /data/db /standby/db --every 10s"
    done, usage = "shipped, or stopped by SIGTERM or Ctrl-C", "wrong options, the mirror is ahead of the root"
    retry = "rows were removed again and again, another process writes the mirror, no space on the disk"
    app.command(epilog=help_end(*lines, done=done, usage=usage, retry=retry))(mirror)
    lines = (
        "export Nyc13.Flight --layout kv --out /data/flights",
        "export Nyc13.Flight --dates 2013-07-01..2013-07-31 --layout metadata --out /data/july --codec ZSTD",
    )
    done = "exported, or the same export is there already"
    usage = "wrong options, no such table, date or column, the directory has something else"
    retry = "another export into the directory runs, a volume is not mounted, no space on the disk"
    app.command(epilog=help_end(*lines, done=done, usage=usage, retry=retry))(export)


def snapshot(
    cli: CliContext,
    names: Names = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=local_path, help="The directory to create.")],
    since: Annotated[
        Path | None,
        typer.Option(metavar="SNAPSHOT", parser=local_path, help="An earlier snapshot: only new bytes are copied."),
    ] = None,
    epoch: EpochOption = None,
    dry_run: DryRun = False,
) -> None:
    """Copies tables while streams, merges and readers run.

    Each table is copied at the newest epoch of each stream, or one table at those that --epoch names. History is
    hard-linked where the file system allows it. The directory appears as a whole, and is itself a database root that
    commands can read.
    """
    fs, database, epochs = Fs(), cli.database(), epochs_named(epoch)
    tables = _chosen(fs, database, names)
    if epochs is not None and len(tables) != 1:
        raise SettingsError(
            "--epoch is given for several tables, each of which has epochs of its own",
            expected="one table",
            found=", ".join(map(str, tables)),
            hint="name the table",
        )
    if dry_run:
        path = snapshot_path(fs, database, out)
        for table in tables:
            pinned = pinned_of(open_table(database.root, str(table), epoch=epochs, fs=fs))
            rows = pinned.plan().rows
            record = {"table": str(table), "out": str(path), "rows": rows, "epochs": pinned.epochs, "dry_run": True}
            cli.result(record, f"{table}: {counted(rows, 'row')} would be copied to {path}")
        return
    now_ms = int(time.time() * 1000)
    taken = take_snapshot(fs, database, tables, out, epoch=epochs, time_ms=now_ms, since=since, progress=cli.note)
    _show(cli, taken, out)


def _show(cli: CliContext, taken: TakenSnapshot, out: Path) -> None:
    for name, copied in taken.manifest.tables.items():
        sizes = {"bytes_copied": taken.copied[name], "bytes_linked": taken.linked[name]}
        parts = f"{_size(taken.copied[name])} copied, {_size(taken.linked[name])} linked"
        shown = f"{name}: {counted(copied.rows, 'row')}, {parts}"
        cli.result({**_json(name, copied), "out": str(out), **sizes}, shown)
    for name in taken.dropped:
        cli.result({"table": name, "out": str(out), "dropped": True}, f"{name}: dropped, no longer in the mirror")


def restore(
    cli: CliContext,
    source: Annotated[Path, typer.Argument(metavar="SNAPSHOT", parser=local_path, help="The directory of a snapshot.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NS.T]...", help="Default: all of its tables.")] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="NS.T", help="A table that is removed for that of the snapshot. Repeatable."),
    ] = None,
    direct_io: DirectIo = False,
    dry_run: DryRun = False,
) -> None:
    """Puts tables of a snapshot into the database root.

    The root may be a new one. All bytes are compared with their checksums before a table appears. Each table appears
    as a whole.
    """
    tables = [TableName.parse(name) for name in names] if names else None
    restored = restore_tables(
        DirectFs() if direct_io else Fs(),
        source.absolute(),
        cli.layout(),
        tables,
        replacing={TableName.parse(name) for name in replace or ()},
        dry_run=dry_run,
        progress=cli.note,
    )
    for table in restored:
        cli.result({**_json(str(table.name), table.table), "outcome": table.outcome.value}, _line(table))


def mirror(
    cli: CliContext,
    root: Annotated[Path, typer.Argument(metavar="ROOT", parser=local_path, help="The database root.")],
    other: Annotated[Path, typer.Argument(metavar="MIRROR", parser=local_path, help="The mirror, a link.")],
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Goes on until SIGTERM, one pass each time. Default: one pass.")
    ] = None,
    direct_io: DirectIo = False,
    dry_run: DryRun = False,
) -> None:
    """Ships what is committed to a mirror of a database.

    The mirror is readable at every moment. MIRROR is a link to the newest of a chain of snapshots beside it. Each pass
    copies new bytes only, then switches the link. A mirror is not written by streams. `restore` makes a root of it.
    """
    fs, layout = DirectFs() if direct_io else Fs(), Layout(root.absolute())
    pause = seconds_of(every, "--every", '"10s" or "1 minute"') if every is not None else None
    require_database(layout.root, "check ROOT")
    shipping = Mirror(fs, other.absolute())
    if dry_run:
        for table in _chosen(fs, layout, None):
            epochs = pinned_of(open_table(layout.root, str(table), fs=fs)).epochs
            told = ", ".join(f"{stream} epoch {epoch}" for stream, epoch in sorted(epochs.items()))
            shown = f"{table}: would ship {told or 'no epoch'}"
            cli.result({"table": str(table), "epochs": epochs, "dry_run": True}, shown)
        return
    stop = stopped_by_signals() if pause is not None else threading.Event()
    while not stop.is_set():
        tables = _chosen(fs, layout, None)
        _show(cli, shipping.ship(layout, tables, time_ms=int(time.time() * 1000), progress=cli.note), other)
        if pause is None:
            return
        stop.wait(pause)


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
    _show_export(cli, name, target, exported, opened.epochs, time.monotonic() - begun)


def _chosen(fs: Fs, database: Layout, names: list[str] | None) -> list[TableName]:
    if names:
        return sorted({TableName.parse(name) for name in names})
    tables = [table for table in known_tables(fs, database) if table.namespace != INTERNAL_NAMESPACE]
    if not tables:
        raise TableNotFoundError("the database has no table", where=database.root, hint="check --root")
    return tables


def _json(name: str, table: CopiedTable) -> dict[str, Any]:
    return {
        "table": name,
        "rows": table.rows,
        "epochs": dict(table.epochs),
        "digest": table.digest,
        "files": len(table.files),
        "bytes": table.bytes,
    }


def _line(restored: RestoredTable) -> str:
    words = {"restored": "restored", "present": "there already", "planned": "would be restored"}
    return f"{restored.name}: {counted(restored.table.rows, 'row')}, {words[restored.outcome.value]}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _show_export(
    cli: CliContext, name: str, out: Path, exported: Exported, epochs: dict[str, int], seconds: float
) -> None:
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
