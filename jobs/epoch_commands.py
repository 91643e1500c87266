"""Commands on commit logs: ``epochs list|show|rollback`` and ``recover``."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jobs.door import Door, DryRun, Json, TableArgument, Verbose, error_json, example, table
from jobs.unstored import fields
from store.epochs.load import EpochEntry, list_epochs, list_streams, load_stream
from store.epochs.log import StreamLog
from store.epochs.merged import require_unmerged
from store.epochs.preview import preview_recovery
from store.epochs.recover import RecoveryReport
from store.epochs.replay import StreamState
from store.epochs.state import ignored_in
from store.errors import EXIT_DONE, SparkhavenError, TableNotFoundError
from store.fs import Fs
from store.layout import Layout, TableName, check_stream
from store.schema.deploy import deployed_tables
from store.system_errors import as_ours

StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream, as in its stream file.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    epochs = typer.Typer(help="Epochs of a stream: list, show, go back.", no_args_is_help=True, rich_markup_mode=None)
    epochs.command("list", epilog=example("epochs list Nyc13.Flight flights"))(list_)
    epochs.command(epilog=example("epochs show Nyc13.Flight flights --epoch 7"))(show)
    epochs.command(epilog=example("epochs rollback Nyc13.Flight flights --to 6 --dry-run"))(rollback)
    app.add_typer(epochs, name="epochs")
    app.command(epilog=example("recover", "recover Nyc13.Flight --json"))(recover)


def open_log(layout: Layout, table: TableName, stream: str) -> StreamLog:
    """The log of a stream for maintenance: recovered, locked, with the schema that it has."""
    load_stream(Fs(), layout, table, check_stream(stream))  # an unknown stream must not make a log
    return StreamLog.open(
        Fs(),
        layout,
        table,
        stream,
        schema=None,
        query_id="maintenance",
        clock=time.time,
        pid=os.getpid(),
        host=socket.gethostname(),
    )


def list_(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Epochs between the rollback floor and now, and those rolled back since."""
    door: Door = ctx.obj
    layout, parsed = door.database(), TableName.parse(name)
    state = load_stream(Fs(), layout, parsed, check_stream(stream))
    entries = list_epochs(Fs(), layout, parsed, stream)
    listed = [asdict(entry) | _shown(entry) for entry in entries]
    unit = "messages" if state.offsets else "files"
    header = ["epoch", "kind", "live", "time", "rows", unit, "locations", "restores", "generation"]

    def people() -> None:
        table(header, [[entry[key] for key in header] for entry in listed])
        print(f"epoch {state.epoch}, floor {state.floor}: `rollback --to` takes any epoch from the floor on")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation}
    door.result({"table": name, "stream": stream, **numbers, "epochs": listed}, people)


def show(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    epoch: Annotated[int | None, typer.Option(help="The newest unless told.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """The state that one epoch made: locations with rows, and the source positions remembered."""
    door: Door = ctx.obj
    state = load_stream(Fs(), door.database(), TableName.parse(name), check_stream(stream), epoch=epoch)
    located = [
        {"source": key.internal, "date": key.value, "rows": at.rows, "since": at.since, "epoch": at.epoch}
        for key, at in sorted(state.locations.items())
    ]
    rows = _rows(state)
    entries = list_epochs(Fs(), door.database(), TableName.parse(name), stream)
    counts = next((dict(entry.counts) for entry in entries if entry.epoch == state.epoch), {})
    header = ["source", "date", "rows", "since", "epoch"]

    def people() -> None:
        table(header, [[at[key] for key in header] for at in located])
        if state.offsets:
            table(["partition", "read to offset"], [list(position) for position in positions.items()])
        print(f"epoch {state.epoch}: {rows:,} rows in {len(located):,} locations, generation {state.generation}")
        if ignored_in(counts):
            print(f"fields that no column takes: {fields(ignored_in(counts))}")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation, "rows": rows}
    positions = state.offsets.positions()
    remembered = {"files": len(state.files), "positions": positions, "counts": counts}
    door.result({"table": name, "stream": stream, **numbers, **remembered, "locations": located}, people)


def rollback(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    to: Annotated[int, typer.Option(min=0, help="The epoch whose state comes back.")],
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Brings the state of an older epoch back, source positions included: the stream takes the files again."""
    door: Door = ctx.obj
    layout, parsed = door.database(), TableName.parse(name)
    now = load_stream(Fs(), layout, parsed, check_stream(stream))
    then = load_stream(Fs(), layout, parsed, stream, epoch=to)
    require_unmerged(Fs(), layout, parsed, stream, to)
    dropped = _rows(now) - _rows(then)
    made = now.epoch
    if not dry_run:
        with open_log(layout, parsed, stream) as log:
            made = log.rollback(to)
    result = {"table": name, "stream": stream, "to": to, "epoch": made, "rows_dropped": dropped, "dry_run": dry_run}
    words = "would drop" if dry_run else "dropped"
    door.result(result, f"epoch {to} is back" * (not dry_run) + f"{'' if dry_run else ', '}{words} {dropped:,} rows")


def _rows(state: StreamState) -> int:
    return sum(location.rows for location in state.locations.values())


def recover(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NS.T]", help="All tables unless told.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Recovery without ingest: drops torn tails, publishes what is committed, reports both."""
    door: Door = ctx.obj
    layout = door.database()
    streams: list[dict[str, Any]] = []
    code = EXIT_DONE
    for found in streamed_tables(layout, name):
        for stream in list_streams(Fs(), layout, found):
            entry: dict[str, Any] = {"table": str(found), "stream": stream}
            try:
                report = _recovered(layout, found, stream, dry_run)
                entry |= {"clean": report.clean, **asdict(report)}
            except (SparkhavenError, OSError) as error:  # one that cannot be recovered keeps no other from it
                failed = as_ours(error)
                code = code or failed.exit_code
                door.note(f"sparkhaven: {failed}")
                entry |= {"clean": False, "error": error_json(failed)}
            streams.append(entry)
    findings = [entry for entry in streams if not entry["clean"]]
    header = ["table", "stream", "epoch", "clean", "cut_bytes", "log_bytes", "republished"]
    door.result(
        {"streams": streams, "findings": findings, "dry_run": dry_run},
        lambda: table(header, [[entry.get(key) for key in header] for entry in streams]),
    )
    if code:
        raise typer.Exit(code)


def _recovered(layout: Layout, found: TableName, stream: str, dry_run: bool) -> RecoveryReport:
    if dry_run:
        return preview_recovery(Fs(), layout, found, stream, time_ms=int(time.time() * 1000))
    with open_log(layout, found, stream) as log:
        return log.recovery


def streamed_tables(layout: Layout, name: str | None) -> list[TableName]:
    """The named table, or all tables that have streams."""
    fs = Fs()
    if name is not None:
        parsed = TableName.parse(name)
        if not list_streams(fs, layout, parsed):
            raise TableNotFoundError(
                f"{name} has no streams", where=layout.streams(parsed), hint="`sparkhaven tables` lists what is there"
            )
        return [parsed]
    return [each for each in deployed_tables(fs, layout) if list_streams(fs, layout, each)]


def _shown(entry: EpochEntry) -> dict[str, object]:
    """What a list tells in other words than the entry does."""
    spans = {
        name: [[part.place, part.start, part.stop] for part in parts]
        for name, parts in (("ranges", entry.ranges), ("gaps", entry.gaps))
    }
    return {"time": _time(entry.time_ms), "messages": entry.messages, **spans}


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
