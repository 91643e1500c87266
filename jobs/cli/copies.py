"""The commands ``snapshot`` and ``restore``: consistent copies of tables, and tables from them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, stopped_by_signals
from sparkhaven.jobs.cli.options import DirectIo, DryRun, EpochOption, epochs_named, help_end, seconds_of
from sparkhaven.readers.arrow.opening import known_tables, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import SettingsError, TableNotFoundError, counted
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import require_database
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.writers.transfer.content import CopiedTable
from sparkhaven.writers.transfer.restore import RestoredTable
from sparkhaven.writers.transfer.restore import restore as restore_tables
from sparkhaven.writers.transfer.snapshots import Mirror, TakenSnapshot, snapshot_path, take_snapshot

Names = Annotated[list[str] | None, typer.Argument(metavar="[NS.T]...", help="Default: all tables but log tables.")]


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
