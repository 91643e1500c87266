"""Commands on the epochs of a stream: ``epochs list|show|rollback``."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, StreamArgument, TableArgument, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.jobs.streams.reports.data_warnings import fields
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_epochs, load_stream
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.rollback import preview_rollback, require_unmerged
from sparkhaven.store.epochs.state.log_values import ignored_in
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.places import StreamPlace


def register(app: typer.Typer) -> None:
    epochs = group("List, show and roll back epochs of a stream.")
    usage = "wrong options, no such table, stream or epoch"
    epochs.command("list", epilog=help_end("epochs list Nyc13.Flight flights", usage=usage))(list_)
    epochs.command(epilog=help_end("epochs show Nyc13.Flight flights --epoch 7", usage=usage))(show)
    line, retry = "epochs rollback Nyc13.Flight flights --to 6 --dry-run", "the stream or a merge runs"
    usage += ", or its rows are merged"
    epochs.command(epilog=help_end(line, done="rolled back", usage=usage, retry=retry))(rollback)
    app.add_typer(epochs, name="epochs")


def list_(ctx: typer.Context, name: TableArgument, stream: StreamArgument) -> None:
    """Lists epochs since the rollback floor."""
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    state = require_stream(StreamPlace(Fs(), layout, parsed, check_stream(stream)))
    entries = list_epochs(StreamPlace(Fs(), layout, parsed, stream))
    listed = [asdict(entry) | _shown(entry) for entry in entries]
    unit = "messages" if state.offsets else "files"
    header = ["epoch", "kind", "live", "time", "rows", unit, "locations", "restores", "generation"]

    def print_text() -> None:
        table(header, [[entry[key] for key in header] for entry in listed])
        print(f"epoch {state.epoch}, floor {state.floor}: a rollback accepts any epoch from the floor on")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation}
    cli.result({"table": name, "stream": stream, **numbers, "epochs": listed}, print_text)


def show(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Default: the newest.")] = None,
) -> None:
    """Shows the state of one epoch: locations and positions."""
    cli: CliContext = ctx.obj
    layout, parsed = cli.database(), TableName.parse(name)
    state = require_stream(StreamPlace(Fs(), layout, parsed, check_stream(stream)))
    if epoch is not None:
        state = load_stream(StreamPlace(Fs(), layout, parsed, stream), epoch=epoch)
    header = ["source", "date", "rows", "since", "epoch"]
    located = [
        {"source": key.internal, "date": key.value, **{name: getattr(location, name) for name in header[2:]}}
        for key, location in sorted(state.locations.items())
    ]
    rows = _rows(state)
    entries = list_epochs(StreamPlace(Fs(), cli.database(), TableName.parse(name), stream))
    counts = next((dict(entry.counts) for entry in entries if entry.epoch == state.epoch), {})

    def print_text() -> None:
        table(header, [[location[key] for key in header] for location in located])
        if state.offsets:
            table(["topic partition", "next offset"], [list(position) for position in positions.items()])
        print(f"epoch {state.epoch}: {rows:,} rows in {len(located):,} locations, generation {state.generation}")
        if ignored_in(counts):
            print(f"fields without a column: {fields(ignored_in(counts))}")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation, "rows": rows}
    positions = state.offsets.positions()
    remembered = {"files": len(state.files), "positions": positions, "counts": counts}
    cli.result({"table": name, "stream": stream, **numbers, **remembered, "locations": located}, print_text)


def rollback(
    ctx: typer.Context,
    name: TableArgument,
    stream: StreamArgument,
    to: Annotated[int, typer.Option(metavar="N", min=0, help="The epoch to restore.")],
    dry_run: DryRun = False,
) -> None:
    """Restores the state of an older epoch as a new epoch.

    Source positions are restored too: the stream ingests what came after them again.
    """
    cli: CliContext = ctx.obj
    place = StreamPlace(Fs(), cli.database(), TableName.parse(name), check_stream(stream))
    now = require_stream(place)
    then = load_stream(place, epoch=to)
    require_unmerged(place, to)
    dropped = _rows(now) - _rows(then)
    epoch = now.epoch
    if dry_run:
        preview_rollback(place, to, time_ms=int(time.time() * 1000))
    else:
        with open_log(place, leave_damaged=True) as log:
            epoch = log.rollback(to)
    record = {"table": name, "stream": stream, "to": to, "epoch": epoch, "rows_dropped": dropped, "dry_run": dry_run}
    words = "would drop" if dry_run else "dropped"
    cli.result(record, f"{'' if dry_run else f'epoch {to} is restored as epoch {epoch}, '}{words} {dropped:,} rows")


def _rows(state: StreamState) -> int:
    return sum(location.rows for location in state.locations.values())


def _shown(entry: EpochEntry) -> dict[str, object]:
    spans = {
        name: [[span.place, span.start, span.stop] for span in parts]
        for name, parts in (("ranges", entry.ranges), ("gaps", entry.gaps))
    }
    time_text = datetime.fromtimestamp(entry.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"time": time_text, "messages": entry.messages, **spans}
