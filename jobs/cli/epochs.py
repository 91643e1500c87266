"""Commands on commit logs: ``epochs list|show|rollback`` and ``recover``."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jobs.context import CliContext, error_json, table
from jobs.operations.rebuilding import parse_choice, rebuild_stream
from jobs.options import (
    AnyTableArgument,
    DryRun,
    Json,
    StreamArgument,
    TableArgument,
    Verbose,
    group,
    help_end,
)
from jobs.streams.data_warnings import fields
from store.epochs.files.load import EpochEntry, list_epochs, list_streams, load_stream
from store.epochs.log import StreamLog
from store.epochs.merged import require_unmerged
from store.epochs.preview import preview_recovery, preview_rollback
from store.epochs.recovery.aside import set_aside
from store.epochs.recovery.recover import RecoveryReport
from store.epochs.recovery.settlement import damage_of
from store.epochs.recovery.witnesses import require_stream, streams_without_log
from store.epochs.state.replay import StreamState
from store.epochs.state.values import ignored_in
from store.errors import EXIT_DONE, SettingsError, SparkhavenError, TableNotFoundError
from store.io.fs import Fs
from store.io.system_errors import as_ours
from store.layout import Layout, LocationKey, TableName, check_partition, check_stream
from store.schema.deployed.deploy import deployed_tables


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    epochs = group("List, show and roll back epochs of a stream.")
    usage = "wrong options, no such table, stream or epoch"
    epochs.command("list", epilog=help_end("epochs list Nyc13.Flight flights", usage=usage))(list_)
    epochs.command(epilog=help_end("epochs show Nyc13.Flight flights --epoch 7", usage=usage))(show)
    line, retry = "epochs rollback Nyc13.Flight flights --to 6 --dry-run", "the stream or a merge runs"
    usage += ", or its rows are merged"
    epochs.command(epilog=help_end(line, done="rolled back", usage=usage, retry=retry))(rollback)
    app.add_typer(epochs, name="epochs")
    lines = "recover", "recover Nyc13.Flight flights --from-locations --dry-run"
    bad_data, usage = "a stream cannot be recovered", "wrong options, no such table or stream"
    retry = "a stream runs, a volume is not mounted, no space on the disk"
    app.command(epilog=help_end(*lines, done="all streams are sound", bad_data=bad_data, usage=usage, retry=retry))(
        recover
    )


def open_log(layout: Layout, table: TableName, stream: str, *, leave_damaged: bool = False) -> StreamLog:
    """Opens the commit log of a stream for maintenance: recovered and locked, with its own schema.

    With ``leave_damaged`` locations may lack committed bytes: then the log can only be rolled back.
    """
    require_stream(Fs(), layout, table, check_stream(stream))  # an unknown stream must not create a log
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
        leave_damaged=leave_damaged,
    )


def list_(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Lists epochs since the rollback floor."""
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    state = require_stream(Fs(), layout, parsed, check_stream(stream))
    entries = list_epochs(Fs(), layout, parsed, stream)
    listed = [asdict(entry) | _shown(entry) for entry in entries]
    unit = "messages" if state.offsets else "files"
    header = ["epoch", "kind", "live", "time", "rows", unit, "locations", "restores", "generation"]

    def people() -> None:
        table(header, [[entry[key] for key in header] for entry in listed])
        print(f"epoch {state.epoch}, floor {state.floor}: `epochs rollback --to` accepts any epoch from the floor on")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation}
    cli.result({"table": name, "stream": stream, **numbers, "epochs": listed}, people)


def show(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Default: the newest.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Shows the state of one epoch: locations and positions."""
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    state = require_stream(Fs(), layout, parsed, check_stream(stream))
    if epoch is not None:
        state = load_stream(Fs(), layout, parsed, stream, epoch=epoch)
    located = [
        {"source": key.internal, "date": key.value, "rows": at.rows, "since": at.since, "epoch": at.epoch}
        for key, at in sorted(state.locations.items())
    ]
    rows = _rows(state)
    entries = list_epochs(Fs(), cli.database(), TableName.parse(name), stream)
    counts = next((dict(entry.counts) for entry in entries if entry.epoch == state.epoch), {})
    header = ["source", "date", "rows", "since", "epoch"]

    def people() -> None:
        table(header, [[at[key] for key in header] for at in located])
        if state.offsets:
            table(["topic partition", "next offset"], [list(position) for position in positions.items()])
        print(f"epoch {state.epoch}: {rows:,} rows in {len(located):,} locations, generation {state.generation}")
        if ignored_in(counts):
            print(f"fields without a column: {fields(ignored_in(counts))}")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation, "rows": rows}
    positions = state.offsets.positions()
    remembered = {"files": len(state.files), "positions": positions, "counts": counts}
    cli.result({"table": name, "stream": stream, **numbers, **remembered, "locations": located}, people)


def rollback(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    to: Annotated[int, typer.Option(metavar="N", min=0, help="The epoch to restore.")],
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Restores the state of an older epoch as a new epoch.

    Source positions are restored too: the stream ingests what came after them again.
    """
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    now = require_stream(Fs(), layout, parsed, check_stream(stream))
    then = load_stream(Fs(), layout, parsed, stream, epoch=to)
    require_unmerged(Fs(), layout, parsed, stream, to)
    dropped = _rows(now) - _rows(then)
    made = now.epoch
    if dry_run:
        preview_rollback(Fs(), layout, parsed, stream, to, time_ms=int(time.time() * 1000))
    else:
        with open_log(layout, parsed, stream, leave_damaged=True) as log:
            made = log.rollback(to)
    result = {"table": name, "stream": stream, "to": to, "epoch": made, "rows_dropped": dropped, "dry_run": dry_run}
    words = "would drop" if dry_run else "dropped"
    cli.result(result, f"{'' if dry_run else f'epoch {to} is restored as epoch {made}, '}{words} {dropped:,} rows")


def _rows(state: StreamState) -> int:
    return sum(location.rows for location in state.locations.values())


def recover(
    ctx: typer.Context,
    name: AnyTableArgument = None,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="Default: all streams of the table.")] = None,
    quarantine: Annotated[
        list[str] | None,
        typer.Option(metavar="INTERNAL/DATE", help="First set this damaged location aside; needs NS.T STREAM."),
    ] = None,
    from_locations: Annotated[
        bool, typer.Option("--from-locations", help="First rebuild a lost or outdated commit log; needs NS.T STREAM.")
    ] = False,
    position: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC/PARTITION=OFFSET", help="For a rebuilt log: the next message to read."),
    ] = None,
    taken_until: Annotated[
        str | None, typer.Option(metavar="TIME", help="For a rebuilt log: files modified earlier count as ingested.")
    ] = None,
    accept_positions: Annotated[
        bool, typer.Option("--accept-positions", help="For a rebuilt log: the known positions hold for all rows.")
    ] = False,
    back_to_known: Annotated[
        bool, typer.Option("--back-to-known", help="For a rebuilt log: drop rows after the newest known state.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Runs crash recovery only, without ingest.

    Truncates uncommitted data, republishes table.size and reports both.

    --quarantine sets a location with missing or short files aside: its directory is renamed in place and nothing is
    deleted. The stream continues without it, every later report names it, and reads that need its rows fail without
    --skip-set-aside.

    --from-locations rebuilds a commit log that is lost, or that was restored from an outdated copy, from the table.size
    of each location; all bytes are compared with their checksums. Source positions come from the newest log, checkpoint
    or head that can be read. Where locations are newer than these positions, choose one, best after a --dry-run:
    --back-to-known drops the newer rows, and the source is read again; --position (Kafka, Delta) and --taken-until
    (files) give the positions; --accept-positions keeps the known ones. Without a choice the stream ingests nothing
    until a second call makes one. The old files are kept in .streams/.replaced-N.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    choice = parse_choice(position or [], taken_until, accept_positions, back_to_known)
    rebuilt: dict[str, Any] | None = None
    aside: list[dict[str, Any]] = []
    if from_locations:
        if name is None or stream is None:
            raise SettingsError("--from-locations needs a stream", expected="recover NS.T STREAM --from-locations")
        parsed, places = TableName.parse(name), [parse_location(place) for place in quarantine or []]
        rebuilt = rebuild_stream(cli, layout, parsed, check_stream(stream), choice, places, dry_run=dry_run)
        if dry_run:
            cli.result({"rebuilt": rebuilt, "dry_run": True}, "dry run: nothing was changed")
            return
    elif choice.made:
        raise SettingsError("positions need --from-locations", expected="recover NS.T STREAM --from-locations ...")
    else:
        aside = set_locations_aside(cli, layout, name, stream, quarantine or [], dry_run=dry_run)
    streams: list[dict[str, Any]] = []
    code = EXIT_DONE
    for found in streamed_tables(layout, name):
        for each in chosen_streams(layout, found, stream):
            entry: dict[str, Any] = {"table": str(found), "stream": each}
            try:
                report = _recovered(layout, found, each, dry_run)
                entry |= {"clean": report.clean, **asdict(report)}
            except (SparkhavenError, OSError) as error:  # recover the other streams all the same
                failed = as_ours(error)
                code = code or failed.exit_code
                cli.note(f"sparkhaven: {failed}")
                entry |= {"clean": False, "error": error_json(failed)}
            streams.append(entry)
    findings = [entry for entry in streams if not entry["clean"]]
    header = ["table", "stream", "epoch", "clean", "cut_bytes", "log_bytes", "republished"]
    cli.result(
        {"streams": streams, "findings": findings, "set_aside": aside, "rebuilt": rebuilt, "dry_run": dry_run},
        lambda: table(header, [[entry.get(key) for key in header] for entry in streams]),
    )
    if code:
        raise typer.Exit(code)


def _recovered(layout: Layout, found: TableName, stream: str, dry_run: bool) -> RecoveryReport:
    if dry_run:
        require_stream(Fs(), layout, found, stream)
        return preview_recovery(Fs(), layout, found, stream, time_ms=int(time.time() * 1000))
    with open_log(layout, found, stream) as log:
        return log.recovery


def chosen_streams(layout: Layout, found: TableName, stream: str | None) -> list[str]:
    """The named stream of a table, or all streams that have a commit log or left files behind."""
    known = [*list_streams(Fs(), layout, found), *streams_without_log(Fs(), layout, found)]
    if stream is None:
        return known
    if check_stream(stream) not in known:
        raise TableNotFoundError(
            f"{found} has no stream {stream!r}", expected=", ".join(known) or "none", found=repr(stream)
        )
    return [stream]


def parse_location(place: str) -> LocationKey:
    """``INTERNAL/DATE``; InvalidNameError for anything else."""
    internal, _, value = place.partition("/")
    return LocationKey(check_partition("internal partition", internal), check_partition("date", value))


def set_locations_aside(
    cli: CliContext, layout: Layout, name: str | None, stream: str | None, places: list[str], *, dry_run: bool
) -> list[dict[str, Any]]:
    """Sets the locations of ``--quarantine`` aside and reports each."""
    if not places:
        return []
    if name is None or stream is None:
        raise SettingsError(
            "--quarantine needs a stream",
            expected="recover NS.T STREAM --quarantine INTERNAL/DATE",
            found=" ".join(filter(None, (name, stream))) or "neither",
        )
    fs, table = Fs(), TableName.parse(name)
    state = require_stream(fs, layout, table, check_stream(stream))
    made = []
    for place in places:
        key = parse_location(place)
        if dry_run and key not in state.locations:
            raise TableNotFoundError(f"stream {stream!r} has no such location", found=place)
        if not dry_run:
            now = int(time.time() * 1000)
            reason = damage_of(fs, layout, table, state, key) or "requested"
            done = set_aside(fs, layout, table, stream, key, reason=reason, time_ms=now)
            made.append(asdict(done))
            cli.note(f"{done.rows:,} rows of {place} are set aside: {done.path}")
    return made


def streamed_tables(layout: Layout, name: str | None) -> list[TableName]:
    """The named table, or all tables that have streams, or had some."""
    fs = Fs()
    if name is not None:
        parsed = TableName.parse(name)
        if not list_streams(fs, layout, parsed) and not streams_without_log(fs, layout, parsed):
            raise TableNotFoundError(
                f"{name} has no streams", where=layout.streams(parsed), hint="`sparkhaven tables` lists the tables"
            )
        return [parsed]
    every = deployed_tables(fs, layout)
    return [t for t in every if list_streams(fs, layout, t) or streams_without_log(fs, layout, t)]


def _shown(entry: EpochEntry) -> dict[str, object]:
    """The fields of an entry that JSON shows in another form."""
    spans = {
        name: [[part.place, part.start, part.stop] for part in parts]
        for name, parts in (("ranges", entry.ranges), ("gaps", entry.gaps))
    }
    return {"time": _time(entry.time_ms), "messages": entry.messages, **spans}


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
