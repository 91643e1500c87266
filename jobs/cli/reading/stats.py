"""Commands that say what is there: ``tables``, ``stats``, ``symbols``.

The figures of a table are those of its tiers, dates and internal partitions, and of its streams. ``rows`` counts each
row once; tiers and dates also count each tier by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, report_failed
from sparkhaven.jobs.cli.options import (
    AsOfOption,
    DatesOption,
    TableAndFilesArgument,
    TableArgument,
    help_end,
    table_and_files,
)
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.epochs import field_words
from sparkhaven.jobs.monitor.storage import TIERS, committed_bytes, disk_use
from sparkhaven.jobs.monitor.streams import StreamFacts, read_stream
from sparkhaven.jobs.monitor.symbols import symbol_use
from sparkhaven.jobs.monitor.waiting import passed_lines, remarks_of
from sparkhaven.jobs.settings.stream_file import load_streams
from sparkhaven.readers.arrow.opening import known_tables, open_place, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.checks.extended_tree import TreeUse, extended_use
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.offsets import settle_hint
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError, SparkhavenError, TableNotFoundError, counted
from sparkhaven.store.format.parquet.trees import EXTENDED
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables, user_tables
from sparkhaven.store.user_tables import list_user_tables

AllOption = Annotated[bool, typer.Option("--all", help="Also the log tables, of namespace SparkhavenInternal.")]
AMOUNT = ("rows", "bytes", "locations")
OF_DATE = ("rows", *TIERS, "bytes")


def register(app: typer.Typer) -> None:
    app.command(epilog=help_end("tables --json", bad_data="a table cannot be read", usage="no such database"))(tables)
    lines = "stats Nyc13.Flight", "stats Nyc13.Flight conf/streams/flights.toml"
    retry = "a volume is not mounted, a source does not answer"
    app.command(epilog=help_end(*lines, bad_data="a table cannot be read", retry=retry))(stats)
    lines = "symbols Nyc13.Flight", "symbols Nyc13.Flight --dates 2013-07-01..2013-07-31 --json"
    app.command(epilog=help_end(*lines, bad_data="a symbol table is damaged"))(symbols)


def tables(cli: CliContext, all_tables: AllOption = False) -> None:
    """Lists tables with rows, dates and epochs."""
    layout = cli.database()
    listed = list_tables(Fs(), layout, _listed(layout, all_tables))
    header = ["table", "rows", "dates", "first", "last", "epochs"]

    def print_text() -> None:
        table(header, [[_joined(line.get(key)) for key in header] for line in listed])
        for line in listed:
            if "error" in line:
                cli.note(f"{line['table']} cannot be read: {line['error']}")

    cli.result({"tables": listed}, print_text)
    if any("error" in line for line in listed):
        cli.fails(EXIT_BAD_DATA)


def stats(
    cli: CliContext,
    words: TableAndFilesArgument = None,
    all_tables: AllOption = False,
    as_of: AsOfOption = None,
) -> None:
    """Reports rows, bytes, epochs and positions of tables.

    Rows, bytes and waste by tier, date and internal partition. With stream files also the ends of the topic partitions
    and the lag. With -v every date.
    """
    layout = cli.database()
    name, files = table_and_files(words)
    if files and as_of is not None:
        raise SettingsError(
            "--as-of has no lag",
            expected="--as-of, or stream files, whose sources say what waits now",
            found="both",
            hint="leave one of them out",
        )
    streams, unread = load_streams(files)
    chosen = [TableName.parse(name)] if name is not None else _listed(layout, all_tables)
    for settings in streams:
        if settings.table not in chosen or settings.spec.stream not in list_streams(
            TablePlace(Fs(), layout, settings.table)
        ):
            raise TableNotFoundError(
                "the stream of this file has not run here",
                where=settings.file,
                found=f"{settings.spec.stream} of {settings.table}",
            )
    report_failed(cli, unread)
    for table_name in chosen:
        try:
            figures = table_figures(TablePlace(Fs(), layout, table_name), as_of=as_of)
            for line in figures["streams"]:
                for settings in streams:
                    if (settings.table, settings.spec.stream) == (table_name, line["stream"]):
                        state = load_stream(StreamPlace(Fs(), layout, table_name, line["stream"]))
                        waiting = settings.feed.waiting(Fs(), state).counts
                        line |= {**waiting, "remarks": remarks_of(waiting, settings.feed.resume.remember_s)}
        except SparkhavenError as error:  # report the other tables all the same
            cli.report(error, table=str(table_name))
            continue
        cli.result(figures, lambda figures=figures: _show_stats(figures, cli.verbose))  # type: ignore[misc]


def list_tables(fs: Fs, layout: Layout, names: Iterable[TableName] | None = None) -> list[dict[str, object]]:
    """Every table, or those that are named, as ``tables --json`` prints them; of one that cannot be read the error."""
    return [_summary(TablePlace(fs, layout, name)) for name in (known_tables(fs, layout) if names is None else names)]


def _summary(place: TablePlace) -> dict[str, object]:
    try:
        table = pinned_of(open_place(place, skip_set_aside=True))
        locations = table.plan().slices
    except (SparkhavenError, OSError) as error:
        return {"table": str(place.table), "error": str(error)}
    dates = sorted({location.key.value for location in locations if location.key.value})
    first, last = (dates[0], dates[-1]) if dates else (None, None)
    ends = {"dates": len(dates), "first": first, "last": last}
    aside = {"set_aside": [asdict(note) for note in table.set_aside]} if table.set_aside else {}
    rows = sum(location.count for location in locations)
    return {"table": str(place.table), "rows": rows, **ends, "epochs": dict(table.epochs), **aside}


def table_figures(place: TablePlace, *, as_of: str | None = None) -> dict[str, Any]:
    """The figures of one table, of its newest snapshot, or of that at the time ``as_of``, as ``stats --json`` prints.

    ``dates`` have rows once, and those of each tier. ``waste``: bytes in the directories that no read of the newest
    snapshot needs; None of an older one. ``extended``: the tree beside history, whose bytes are in neither.
    """
    table = pinned_of(open_place(place, as_of=as_of, skip_set_aside=True))
    tiers = {tier: dict.fromkeys(AMOUNT, 0) for tier in TIERS}
    dates: dict[str, dict[str, int]] = {}
    sources: dict[tuple[str, str], dict[str, int]] = {}
    for location in table.plan().slices:
        dates.setdefault(location.key.value, dict.fromkeys(OF_DATE, 0))["rows"] += location.count
    for tier in TIERS:
        for location in table.plan(tier=tier).slices:
            size, key = committed_bytes(location), location.key
            for amount in (tiers[tier], sources.setdefault((tier, key.internal), dict.fromkeys(AMOUNT, 0))):
                amount["rows"] += location.count
                amount["bytes"] += size
                amount["locations"] += 1
            of_date = dates.setdefault(key.value, dict.fromkeys(OF_DATE, 0))
            of_date[tier] += location.count
            of_date["bytes"] += size
    use = disk_use(place, table=table) if as_of is None else None
    tree = extended_use(place) if use is None else use.tree
    streams = [
        read_stream(place.of_stream(stream), epoch=None if as_of is None else epoch)
        for stream, epoch in table.epochs.items()
    ]
    return {
        "table": table.name,
        "rows": sum(amount["rows"] for amount in dates.values()),
        "bytes": sum(amount["bytes"] for amount in tiers.values()),
        "waste": None if use is None else use.waste,
        "tiers": tiers,
        "extended": tree and _tree_json(tree, EXTENDED.get(table.schema.extended or "")),
        "set_aside": [asdict(note) for note in table.set_aside],
        "streams": [stream_json(stream, table.schema.version) for stream in streams],
        "dates": [{"date": date, **amount} for date, amount in sorted(dates.items()) if date],
        "sources": [{"tier": tier, "source": source, **amount} for (tier, source), amount in sorted(sources.items())],
    }


def _tree_json(tree: TreeUse, layout: str | None) -> dict[str, object]:
    return {"layout": layout, "files": tree.files, "bytes": tree.bytes, "waste": tree.waste}


def stream_json(stream: StreamFacts, deployed: int) -> dict[str, object]:
    """A stream as ``stats --json`` prints it; ``deployed``: the version of the deployed schema."""
    behind = {"writes": stream.schema_version, "deployed": deployed}
    return {
        "stream": stream.stream,
        "epoch": stream.epoch,
        "floor": stream.floor,
        "generation": stream.generation,
        "durability": stream.durability,
        "locations": stream.locations,
        "rememberedFiles": stream.files,
        "positions": dict(stream.positions),
        **({"schemaBehind": behind} if 0 < stream.schema_version < deployed else {}),
        **(
            {"positionsUnknown": {"rowsUpTo": stream.unsettled[0], "knownUpTo": stream.unsettled[1]}}
            if stream.unsettled
            else {}
        ),
        "rates": dict(stream.rates),
        "ignored": dict(stream.ignored),
        "absent": dict(stream.absent),
        "logBytes": stream.log_bytes,
    }


def _listed(layout: Layout, all_tables: bool) -> list[TableName]:
    deployed = deployed_tables(Fs(), layout) if all_tables else user_tables(Fs(), layout)
    return sorted({*deployed, *list_user_tables(Fs(), layout)})


def _show_stats(figures: dict[str, Any], verbose: bool) -> None:
    waste = "" if figures["waste"] is None else f", {counted(figures['waste'], 'byte')} of waste"
    print(f"{figures['table']}: {counted(figures['rows'], 'row')}, {counted(figures['bytes'], 'byte')}{waste}")
    tiers = [{"tier": tier, **numbers} for tier, numbers in figures["tiers"].items()]
    by_place = {"positions": "position", "rates": "per second", "ends": "end", "lag": "lag"}
    shown_apart = {"absent", "ignored", "older", "passed", "positionsUnknown", "remarks", "schemaBehind"}
    keys = dict.fromkeys(
        key for line in figures["streams"] for key in line if key not in by_place and key not in shown_apart
    )
    streams = [{key: line.get(key) for key in keys} for line in figures["streams"]]
    kinds = [part for part in by_place if any(line.get(part) for line in figures["streams"])]
    positions = [
        {"stream": line["stream"], "topic partition": partition}
        | {by_place[kind]: line.get(kind, {}).get(partition) for kind in kinds}
        for line in figures["streams"]
        for partition in {**line["positions"], **line.get("ends", {})}
    ]
    parts = {"tiers": tiers, "streams": streams, "positions": positions, "sources": figures["sources"]}
    if figures["extended"]:
        parts["extended"] = [figures["extended"]]
    dates = figures["dates"]
    if verbose or len(dates) <= 20:
        parts["dates"] = dates
    for heading, lines in parts.items():
        if lines:
            print(f"\n{heading}")
            table(list(lines[0]), [list(line.values()) for line in lines])
    for line in figures["streams"]:
        if late := line.get("positionsUnknown"):
            reach = f"source positions are known up to epoch {late['knownUpTo']}, rows up to epoch {late['rowsUpTo']}"
            print(f"\n{line['stream']}, rebuilt commit log: {reach}.")
            print("The stream ingests nothing until they are given")
            print(f"  to do: {settle_hint(figures['table'], line['stream'])}")
        if behind := line.get("schemaBehind"):
            print(f"\n{line['stream']} writes schema version {behind['writes']}. Deployed is {behind['deployed']}.")
            print("It takes the deployed version when it starts again with that schema.")
        if line.get("ignored"):
            print(f"\n{line['stream']}, fields without a column: {field_words(line['ignored'])}")
        if line.get("absent"):
            print(f"\n{line['stream']}, no field for columns: {field_words(line['absent'])}")
        for remark in line.get("remarks", ()):
            print(f"\n{line['stream']}: {remark}")
        for files in passed_lines(line.get("passed", {})):
            print(f"\n{line['stream']}, not ingested: {files}")
    for aside in figures.get("set_aside", ()):
        location = f"{aside['internal']}/{aside['value']}"
        print(f"\n{location} lacks {counted(aside['rows'], 'row')}, set aside: {aside['path']}")
    if "dates" not in parts:
        print(f"\n{counted(len(dates), 'date')}, {dates[0]['date']} to {dates[-1]['date']}. Option -v lists them")


def _joined(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{key}@{number}" for key, number in sorted(value.items()))
    return value


def symbols(cli: CliContext, name: TableArgument, dates: DatesOption = None) -> None:
    """Reports symbol tables: texts, duplicates, bytes, advice.

    One line a column and date, over all locations of the date. Duplicates are entries that repeat a text of their own
    table. Bytes are those of the tables. Locations in Parquet format have none.
    """
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
