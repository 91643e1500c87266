"""The commands ``read``, of rows of one snapshot, and ``sql``, a SELECT over tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from sparkhaven.jobs.cli import text_table
from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    AsOfOption,
    DatesOption,
    EpochOption,
    NullCharOption,
    SkipSetAsideOption,
    TableArgument,
    TierOption,
    epochs_named,
    help_end,
    memory_bytes,
)
from sparkhaven.readers.arrow.export import cell_values, check_target, export, nested_text
from sparkhaven.readers.arrow.opening import feed_positions, open_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.scan.checksums import chosen_mode
from sparkhaven.store.scan.selection import check_tier

if TYPE_CHECKING:
    from sparkhaven.readers.sql.scan import TableScan


CHOOSE = "--columns A,B chooses"


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rows and columns of a snapshot."""

    tier: TierOption = "all"
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns. Default: all.")] = None
    dates: DatesOption = None
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE", help="Only this internal partition: its value, or its directory. May be repeated."
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Only these rows, in SQL: 'dep_delay > 60 AND tailnum IS NOT NULL'."),
    ] = None

    @property
    def names(self) -> list[str] | None:
        """The columns; None: all."""
        given = self.columns
        return None if given is None else [part.strip() for part in given.split(",") if part.strip()]

    @property
    def selection(self) -> Mapping[str, Any]:
        return {"dates": self.dates, "sources": self.source, "where": self.where, "tier": self.tier}


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """Which snapshot, and how its files are read."""

    epoch: EpochOption = None
    as_of: AsOfOption = None
    checksum_verify: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Compare files with committed checksums: read, open, scrub or off. Default: read, each file once.",
        ),
    ] = None
    null_char: NullCharOption = None
    skip_set_aside: SkipSetAsideOption = False

    def open(self, root: Path, name: str) -> Snapshot:
        """The table, pinned. Raises what ``open_table`` raises."""
        mode = None if self.checksum_verify is None else chosen_mode(self.checksum_verify, {})
        return open_table(
            root,
            name,
            epoch=epochs_named(self.epoch),
            as_of=self.as_of,
            checksum_verify=mode,
            null_char=self.null_char,
            skip_set_aside=self.skip_set_aside,
        )


@dataclass(frozen=True, slots=True)
class QueriedSnapshots:
    """Which snapshot of each table."""

    tier: TierOption = "all"
    as_of: AsOfOption = None
    skip_set_aside: SkipSetAsideOption = False
    newest: Annotated[
        bool,
        typer.Option(
            "--newest",
            help="Each table at its newest epoch. Default: tables that one feed fills at one position of it.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Where rows go: to a file, or the first ones to the terminal."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", parser=local_path, help="Write all rows to FILE.parquet, FILE.csv or FILE.arrow."
        ),
    ] = None
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Rows to show without --out.")] = 20
    vertical: Annotated[bool, typer.Option("--vertical", help="Show one column a line, each value whole.")] = False


def register(app: typer.Typer) -> None:
    lines = (
        "read Nyc13.Flight --dates 2013-07-04 --columns carrier,dep_delay --where 'dep_delay > 60'",
        "read Nyc13.Flight --tier history --out flights.parquet",
    )
    usage = "wrong options, no such table, column or epoch"
    retry = "a volume is not mounted, rows have left the snapshot"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(read)
    lines = (
        "sql 'select carrier, avg(dep_delay) from Nyc13.Flight group by carrier order by 2 desc'",
        "sql \"select * from Nyc13.Flight where Date like '2013-07-%'\" --out july.parquet",
    )
    usage = "a query that cannot be run, no such table or column"
    retry += ", not enough memory"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(sql)


def read(cli: CliContext, name: TableArgument, rows: RowChoice, snapshot: SnapshotChoice, shown: ShownRows) -> None:
    """Reads rows of one snapshot of a table.

    Reads are snapshot-isolated, safe during ingest and merge. Without --out the first rows are shown.
    """
    opened = snapshot.open(cli.database().root, name)
    record: dict[str, Any] = {"table": name, "tier": rows.tier, "epoch": opened.epochs}
    if aside := opened.set_aside:
        record["set_aside"] = [asdict(location) for location in aside]
        note_set_aside(cli, opened)
    if (out := shown.out) is not None:
        check_target(out)
        count = export(opened.to_batches(rows.names, dictionaries=False, **rows.selection), out)
        cli.result({**record, "rows": count, "out": str(out)}, f"{counted(count, 'row')} to {out} {pinned(opened)}")
        return
    count = opened.count(**rows.selection)
    first = opened.head(shown.limit, rows.names, **rows.selection)
    lines = zip(*map(cell_values, first.columns), strict=True)
    listed = [dict(zip(first.schema.names, line, strict=True)) for line in lines]
    record |= {"rows": count, "columns": first.schema.names, "first": listed}
    cli.result(record, lambda: _show(opened, first.schema.names, listed, count, shown.vertical))


def sql(
    cli: CliContext,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT. Tables are named NS.T.")],
    snapshots: QueriedSnapshots,
    shown: ShownRows,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of the query. Default: 80 % of the machine's.")
    ] = None,
) -> None:
    """Runs a SELECT over snapshots of tables.

    DuckDB evaluates it. Each table is pinned once for the whole query. Tables that one feed fills are pinned at one
    position of it, so that of each message all rows are there, or none. Only columns, dates and row ranges that it
    needs are read. -v and --json report how many rows. Without --out the first rows are shown. A query reads tables of
    the root only.
    """
    from sparkhaven.readers.sql.query import QueryOptions, open_query  # DuckDB: only this command needs it

    root, size = cli.database().root, None if memory is None else memory_bytes(memory)
    tier, out = snapshots.tier, shown.out
    check_tier(tier)
    if out is not None:
        check_target(out)
    lines: list[list[Any]] = []
    options = QueryOptions(tier, snapshots.as_of, snapshots.skip_set_aside, snapshots.newest, size)
    with open_query(root, query, options) as result:
        opened = [scan.table for scan in result.scans]
        for opened_table in opened:
            note_set_aside(cli, opened_table)
        names = result.batches.schema.names
        if out is not None:
            rows = _written(result.batches, out)
            record: dict[str, Any] = {"tier": tier, "rows": rows, "out": str(out)}
        else:
            rows, lines = _first(result.batches, shown.limit)
            first = [dict(zip(names, line, strict=True)) for line in lines]
            record = {"tier": tier, "rows": rows, "columns": names, "first": first}
        record["tables"] = [_read(scan) for scan in result.scans]
        if positions := feed_positions(opened):
            record["positions"] = positions

    def print_text() -> None:
        if out is not None:
            print(f"{counted(rows, 'row')} to {out}{_pinned(opened)}")
        else:
            show_rows(names, lines, shown.vertical, "--vertical shows all")
            print(f"{counted(rows, 'row')}{_pinned(opened)}, {len(lines)} shown")
        for scan in record["tables"] if cli.verbose else ():
            condition = f" where {scan['where']}" if scan["where"] else ""
            print(
                f"{scan['table']}: {counted(scan['rows_read'], 'row')} read of {', '.join(scan['columns'])}{condition}"
            )

    cli.result(record, print_text)


def _show(opened: Snapshot, names: list[str], listed: list[dict[str, Any]], rows: int, vertical: bool) -> None:
    show_rows(names, [[row[name] for name in names] for row in listed], vertical, f"--vertical shows all, {CHOOSE}")
    print(f"{counted(rows, 'row')} {pinned(opened)}, {len(listed)} shown")


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


def note_set_aside(cli: CliContext, opened: Snapshot) -> None:
    """Says on standard error which rows a read leaves out."""
    for aside in opened.set_aside:
        cli.note(f"{aside.internal}/{aside.value} lacks {counted(aside.rows, 'row')}, set aside: {aside.path}")


def pinned(opened: Snapshot) -> str:
    if not opened.epochs:
        return "without streams"
    return "at " + ", ".join(f"{stream} epoch {epoch}" for stream, epoch in sorted(opened.epochs.items()))


def _read(scan: TableScan) -> dict[str, Any]:
    record: dict[str, Any] = {
        "table": scan.table.name,
        "epoch": scan.table.epochs,
        "rows_read": scan.rows_read,
        "columns": sorted(scan.columns_read),
        "where": scan.where.text if scan.where else None,
    }
    if aside := scan.table.set_aside:
        record["set_aside"] = [asdict(location) for location in aside]
    return record


def _written(batches: pa.RecordBatchReader, out: Path) -> int:
    try:
        return export(batches, out)
    except pa.ArrowException as error:
        raise SettingsError(
            f"the result cannot be written in this format: {error}",
            where=out,
            hint="cast the column in the query, or write another format",
        ) from None


def _first(batches: pa.RecordBatchReader, limit: int) -> tuple[int, list[list[Any]]]:
    rows = 0
    lines: list[list[Any]] = []
    for batch in batches:
        rows += batch.num_rows
        lines += _lines(batch.slice(0, limit - len(lines)))
    return rows, lines


def _lines(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    columns = [[_number(value) for value in cell_values(column)] for column in batch.columns]
    return (list(line) for line in zip(*columns, strict=True))


def _number(value: object) -> object:
    """Whole decimals, which a sum gives, as whole numbers; others where a float has all of their digits."""
    if not isinstance(value, Decimal) or not value.is_finite():
        return value
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else value


def _pinned(tables: list[Snapshot]) -> str:
    if len(tables) == 1:
        return f" {pinned(tables[0])}"
    return "; ".join(f" {opened_table.name} {pinned(opened_table)}" for opened_table in tables)
