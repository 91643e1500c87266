"""Commands that read tables: ``read``, ``tables``, ``stats``."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from jobs.context import CliContext, report, table
from jobs.options import (
    Json,
    OldFeedOption,
    TableAndFilesArgument,
    TableArgument,
    Verbose,
    help_end,
    table_and_files,
)
from jobs.streams.data_warnings import fields
from jobs.streams.feeds import passed_lines
from jobs.streams.starting import load_streams, report_failed
from readers.arrow.export import check_target, export
from readers.arrow.opening import open_table
from readers.arrow.table import Table
from readers.stats import table_stats
from readers.stats import tables as list_tables
from store.epochs.reading.load import list_streams, load_stream
from store.errors import EXIT_BAD_DATA, SettingsError, SparkhavenError, TableNotFoundError
from store.io.fs import Fs
from store.layout import TableName
from store.scan.checksums import chosen_mode
from store.schema.deployed.deploy import deployed_tables


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    lines = (
        "read Nyc13.Flight --date 2013-07-04 --columns carrier,dep_delay --where 'dep_delay > 60'",
        "read Nyc13.Flight --tier history --out flights.parquet",
    )
    usage = "wrong options, no such table, column or epoch"
    retry = "a volume is not mounted, rows have left the snapshot"
    app.command(epilog=help_end(*lines, usage=usage, retry=retry))(read)
    app.command(epilog=help_end("tables --json", bad_data="a table cannot be read", usage="no such database"))(tables)
    stats_lines = "stats Nyc13.Flight", "stats Nyc13.Flight conf/streams/flights.toml"
    retry = "a volume is not mounted, a source does not answer"
    app.command(epilog=help_end(*stats_lines, bad_data="a table cannot be read", retry=retry))(stats)


def read(
    ctx: typer.Context,
    name: TableArgument,
    tier: Annotated[str, typer.Option(metavar="TIER", help="intraday, history, or all: each row once.")] = "all",
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns; default: all.")] = None,
    date: Annotated[
        list[str] | None, typer.Option(metavar="D|A..B", help="A date or a range of dates; may be repeated.")
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(metavar="S", help="Only this internal partition; may be repeated.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Only rows like 'dep_delay > 60 && !isNull(tailnum)'.")
    ] = None,
    epoch: Annotated[
        list[str] | None, typer.Option(metavar="N|STREAM=N", help="Epoch of the snapshot; default: the newest.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows to FILE.parquet, FILE.csv or FILE.arrow.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Rows to show without --out.")] = 20,
    checksum_verify: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Compare files with committed checksums: read (default: each file once), open, scrub or off.",
        ),
    ] = None,
    skip_set_aside: Annotated[
        bool, typer.Option("--skip-set-aside", help="Read without the rows of damaged locations that were set aside.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Reads rows of one snapshot of a table.

    Reads are snapshot-isolated, safe during ingest and merge. Without --out the first rows are shown.
    """
    cli: CliContext = ctx.obj
    mode = None if checksum_verify is None else chosen_mode(checksum_verify, {})
    pins, skip = _pins(epoch), skip_set_aside
    opened = open_table(cli.database().root, name, epoch=pins, checksum_verify=mode, skip_set_aside=skip)
    names = [part.strip() for part in columns.split(",") if part.strip()] if columns is not None else None
    asked: dict[str, Any] = {"dates": date, "sources": source, "where": where, "tier": tier}
    result: dict[str, Any] = {"table": name, "tier": tier, "epoch": opened.epochs}
    if aside := opened.set_aside:
        result["set_aside"] = [asdict(each) for each in aside]
        for each in aside:
            cli.note(f"{each.rows:,} rows of {each.internal}/{each.value} are missing, set aside: {each.path}")
    if out is not None:
        check_target(out)
        rows = export(opened.to_batches(names, dictionaries=False, **asked), out)
        cli.result({**result, "rows": rows, "out": str(out)}, f"{rows:,} rows to {out} {_pinned(opened)}")
        return
    rows = opened.count(**asked)
    shown = _first(opened, names, asked, limit)
    listed = shown.to_pylist() if limit else []
    result |= {"rows": rows, "columns": shown.schema.names, "first": listed}
    cli.result(result, lambda: _show(opened, shown.schema.names, listed, rows))


def _pins(epochs: list[str] | None) -> int | dict[str, int] | None:
    if not epochs:
        return None
    if len(epochs) == 1 and epochs[0].isdigit():
        return int(epochs[0])
    pins: dict[str, int] = {}
    for text in epochs:
        stream, equals, number = text.rpartition("=")
        if not equals or not number.isdigit() or stream in pins:
            raise SettingsError("--epoch is no epoch", expected="N, or STREAM=N once a stream", found=text)
        pins[stream] = int(number)
    return pins


def _first(opened: Table, names: list[str] | None, asked: dict[str, Any], limit: int) -> pa.Table:
    reader = opened.to_batches(names, dictionaries=False, batch_rows=max(limit, 1), **asked)
    batches, rows = [], 0
    for batch in islice(reader, 0 if limit == 0 else None):
        batches.append(batch.slice(0, limit - rows))
        rows += batches[-1].num_rows
        if rows >= limit:
            break
    return pa.Table.from_batches(batches, reader.schema)


def _show(opened: Table, names: list[str], listed: list[dict[str, Any]], rows: int) -> None:
    table(names, [[_text(row[name]) for name in names] for row in listed], data=True)
    print(f"{rows:,} rows {_pinned(opened)}, {len(listed)} shown")


def _text(value: object) -> object:
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else value


def _pinned(opened: Table) -> str:
    if not opened.epochs:
        return "without streams"
    return "at " + ", ".join(f"{stream} epoch {epoch}" for stream, epoch in sorted(opened.epochs.items()))


def tables(ctx: typer.Context, as_json: Json = False, verbose: Verbose = False) -> None:
    """Lists tables with rows, dates and epochs."""
    cli: CliContext = ctx.obj
    found = list_tables(Fs(), cli.database())
    header = ["table", "rows", "dates", "first", "last", "epochs"]

    def people() -> None:
        table(header, [[_joined(line.get(key)) for key in header] for line in found])
        for line in found:
            if "error" in line:
                cli.note(f"{line['table']} cannot be read: {line['error']}")

    cli.result({"tables": found}, people)
    if any("error" in line for line in found):
        raise typer.Exit(EXIT_BAD_DATA)


def stats(
    ctx: typer.Context,
    words: TableAndFilesArgument = None,
    feeds: OldFeedOption = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Reports rows, bytes, epochs and positions of tables.

    Rows, bytes and waste by tier, date and internal partition. With stream files also the ends of the topic partitions
    and the lag; with -v every date.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    name, files = table_and_files(cli, words, feeds)
    asked, unread = load_streams(files)
    chosen = [TableName.parse(name)] if name is not None else deployed_tables(Fs(), layout)
    for settings in asked:
        if settings.table not in chosen or settings.spec.stream not in list_streams(Fs(), layout, settings.table):
            raise TableNotFoundError(
                "the stream of this file has not run here",
                where=settings.file,
                found=f"{settings.spec.stream} of {settings.table}",
            )
    code = report_failed(cli, unread)
    for each in chosen:
        try:
            found = table_stats(Fs(), layout, each)
            for line in found["streams"]:
                for settings in asked:
                    if (settings.table, settings.spec.stream) == (each, line["stream"]):
                        state = load_stream(Fs(), layout, each, line["stream"])
                        line |= settings.feed.waiting(Fs(), state).counts
        except SparkhavenError as error:  # report the other tables all the same
            failed = report(cli, error, table=str(each))
            code = code or failed
            continue
        cli.result(found, lambda found=found: _show_stats(found, verbose))  # type: ignore[misc]
    if code:
        raise typer.Exit(code)


def _show_stats(found: dict[str, Any], verbose: bool) -> None:
    print(f"{found['table']}: {found['rows']:,} rows, {found['bytes']:,} bytes, {found['waste']:,} bytes of waste")
    tiers = [{"tier": tier, **numbers} for tier, numbers in found["tiers"].items()]
    by_place = {"positions": "position", "rates": "per second", "ends": "end", "lag": "lag"}
    left = {"ignored", "passed", "positionsUnknown"}
    keys = dict.fromkeys(key for line in found["streams"] for key in line if key not in by_place and key not in left)
    streams = [{key: line.get(key) for key in keys} for line in found["streams"]]
    known = [part for part in by_place if any(line.get(part) for line in found["streams"])]
    positions = [
        {"stream": line["stream"], "topic partition": place}
        | {by_place[part]: line.get(part, {}).get(place) for part in known}
        for line in found["streams"]
        for place in {**line["positions"], **line.get("ends", {})}
    ]
    parts = {"tiers": tiers, "streams": streams, "positions": positions, "sources": found["sources"]}
    dates = found["dates"]
    if verbose or len(dates) <= 20:
        parts["dates"] = dates
    for part, lines in parts.items():
        if lines:
            print(f"\n{part}")
            table(list(lines[0]), [list(line.values()) for line in lines])
    for line in found["streams"]:
        if late := line.get("positionsUnknown"):
            reach = f"source positions are known up to epoch {late['knownUpTo']}, rows up to epoch {late['rowsUpTo']}"
            print(f"\n{line['stream']}, rebuilt commit log: {reach};")
            print("the stream ingests nothing until `recover --from-locations` gives its positions")
        if line.get("ignored"):
            print(f"\n{line['stream']}, fields without a column: {fields(line['ignored'])}")
        for files in passed_lines(line.get("passed", {})):
            print(f"\n{line['stream']}, not ingested: {files}")
    for each in found.get("set_aside", ()):
        print(f"\n{each['rows']:,} rows of {each['internal']}/{each['value']} are missing, set aside: {each['path']}")
    if "dates" not in parts:
        print(f"\n{len(dates):,} dates, {dates[0]['date']} to {dates[-1]['date']}; -v lists them")


def _joined(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key}@{number}" for key, number in sorted(value.items()))
    return value
