"""The command ``read``: rows of one snapshot."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import pyarrow as pa
import typer

from sparkhaven.jobs.cli import text_table
from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    AsOfOption,
    DatesOption,
    EpochOption,
    LimitOption,
    NullCharOption,
    OutOption,
    SkipSetAsideOption,
    TableArgument,
    TierOption,
    VerticalOption,
    epochs_named,
    help_end,
)
from sparkhaven.readers.arrow.cell_values import cell_values, nested_text
from sparkhaven.readers.arrow.export import check_target, export
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import Table
from sparkhaven.store.scan.checksums import chosen_mode

CHOOSE = "--columns A,B chooses"


def register(app: typer.Typer) -> None:
    lines = (
        "read Nyc13.Flight --dates 2013-07-04 --columns carrier,dep_delay --where 'dep_delay > 60'",
        "read Nyc13.Flight --tier history --out flights.parquet",
    )
    usage = "wrong options, no such table, column or epoch"
    retry = "a volume is not mounted, rows have left the snapshot"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(read)


def read(
    ctx: typer.Context,
    name: TableArgument,
    tier: TierOption = "all",
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns. Default: all.")] = None,
    dates: DatesOption = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE", help="Only this internal partition: its value, or its directory. May be repeated."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Only rows like 'dep_delay > 60 && !isNull(tailnum)'.")
    ] = None,
    epoch: EpochOption = None,
    as_of: AsOfOption = None,
    out: OutOption = None,
    limit: LimitOption = 20,
    vertical: VerticalOption = False,
    checksum_verify: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Compare files with committed checksums: read, open, scrub or off. Default: read, each file once.",
        ),
    ] = None,
    null_char: NullCharOption = None,
    skip_set_aside: SkipSetAsideOption = False,
) -> None:
    """Reads rows of one snapshot of a table.

    Reads are snapshot-isolated, safe during ingest and merge. Without --out the first rows are shown.
    """
    cli: CliContext = ctx.obj
    mode = None if checksum_verify is None else chosen_mode(checksum_verify, {})
    pins, skip = epochs_named(epoch), skip_set_aside
    more: dict[str, Any] = {"checksum_verify": mode, "null_char": null_char, "skip_set_aside": skip}
    opened = open_table(cli.database().root, name, epoch=pins, as_of=as_of, **more)
    names = [part.strip() for part in columns.split(",") if part.strip()] if columns is not None else None
    selection: dict[str, Any] = {"dates": dates, "sources": source, "where": where, "tier": tier}
    record: dict[str, Any] = {"table": name, "tier": tier, "epoch": opened.epochs}
    if aside := opened.set_aside:
        record["set_aside"] = [asdict(location) for location in aside]
        note_set_aside(cli, opened)
    if out is not None:
        check_target(out)
        rows = export(opened.to_batches(names, dictionaries=False, **selection), out)
        cli.result({**record, "rows": rows, "out": str(out)}, f"{rows:,} rows to {out} {pinned(opened)}")
        return
    rows = opened.count(**selection)
    shown = _first(opened, names, selection, limit)
    lines = zip(*map(cell_values, shown.columns), strict=True)
    listed = [dict(zip(shown.schema.names, line, strict=True)) for line in lines]
    record |= {"rows": rows, "columns": shown.schema.names, "first": listed}
    cli.result(record, lambda: _show(opened, shown.schema.names, listed, rows, vertical))


def _first(opened: Table, names: list[str] | None, selection: dict[str, Any], limit: int) -> pa.Table:
    reader = opened.to_batches(names, batch_rows=max(limit, 1), **selection)
    batches, rows = [], 0
    for batch in islice(reader, 0 if limit == 0 else None):
        batches.append(batch.slice(0, limit - rows))
        rows += batches[-1].num_rows
        if rows >= limit:
            break
    return pa.Table.from_batches(batches, reader.schema)


def _show(opened: Table, names: list[str], listed: list[dict[str, Any]], rows: int, vertical: bool) -> None:
    show_rows(names, [[row[name] for name in names] for row in listed], vertical, f"--vertical shows all, {CHOOSE}")
    print(f"{rows:,} rows {pinned(opened)}, {len(listed)} shown")


def show_rows(names: list[str], rows: list[list[Any]], vertical: bool, hint: str) -> None:
    """Prints rows of a table. ``hint``: how to see columns that a terminal has no room for."""
    texts = [[cell_text(value) for value in row] for row in rows]
    if vertical:
        text_table.vertical(names, texts)
    else:
        text_table.table(names, texts, data=True, hint=hint)


def cell_text(value: object) -> object:
    if isinstance(value, list | dict):
        return nested_text(value)
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else value


def note_set_aside(cli: CliContext, opened: Table) -> None:
    """Says on standard error which rows a read leaves out."""
    for aside in opened.set_aside:
        cli.note(f"{aside.rows:,} rows of {aside.internal}/{aside.value} are missing, set aside: {aside.path}")


def pinned(opened: Table) -> str:
    if not opened.epochs:
        return "without streams"
    return "at " + ", ".join(f"{stream} epoch {epoch}" for stream, epoch in sorted(opened.epochs.items()))
