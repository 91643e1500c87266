"""The command ``sql``: a SELECT over tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import AsOfOption, SkipSetAsideOption, TierOption, help_end, memory_bytes
from sparkhaven.jobs.cli.reading.read import ShownRows, note_set_aside, pinned, show_rows
from sparkhaven.readers.arrow.cell_values import cell_values
from sparkhaven.readers.arrow.export import check_target, export
from sparkhaven.readers.arrow.opening_together import feed_positions
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store.errors import SettingsError, counted
from sparkhaven.store.scan.selection import check_tier

if TYPE_CHECKING:
    from sparkhaven.readers.sql.scan import TableScan


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


def register(app: typer.Typer) -> None:
    lines = (
        "sql 'select carrier, avg(dep_delay) from Nyc13.Flight group by carrier order by 2 desc'",
        "sql \"select * from Nyc13.Flight where Date like '2013-07-%'\" --out july.parquet",
    )
    usage = "a query that cannot be run, no such table or column"
    retry = "a volume is not mounted, rows have left the snapshot, not enough memory"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(sql)


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
