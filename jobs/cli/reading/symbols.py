"""The command ``symbols``: what symbol tables cost, and whether a column is better stored without one."""

from __future__ import annotations

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DatesOption, TableArgument, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.symbols import symbol_use
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.table import pinned_of
from sparkhaven.store.io.fs import Fs


def register(app: typer.Typer) -> None:
    lines = "symbols Nyc13.Flight", "symbols Nyc13.Flight --dates 2013-07-01..2013-07-31 --json"
    app.command(epilog=help_end(*lines, bad_data="a symbol table is damaged"))(symbols)


def symbols(ctx: typer.Context, name: TableArgument, dates: DatesOption = None) -> None:
    """Reports symbol tables: texts, duplicates, bytes, advice.

    One line a column and date, over all locations of the date. Duplicates are entries that repeat a text of their own
    table. Bytes are those of the tables. Locations in Parquet format have none.
    """
    cli: CliContext = ctx.obj
    fs = Fs()
    opened = pinned_of(open_table(cli.database().root, name, fs=fs))
    lines = [use.to_json() for use in symbol_use(fs, opened, dates)]
    header = ["column", "date", "locations", "rows", "ids", "distinct", "duplicates", "bytes", "advice"]

    def print_text() -> None:
        if lines:
            table(header, [[line[key] for key in header] for line in lines])
        else:
            print(f"{name}: no symbol tables")

    cli.result({"table": name, "epochs": opened.epochs, "symbols": lines}, print_text)
