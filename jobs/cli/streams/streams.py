"""Commands on streams and their epochs: ``streams list|remove``, ``epochs list|show|rollback|undo``."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    AnyTableArgument,
    DryRun,
    OneStream,
    StreamArgument,
    TableArgument,
    group,
    help_end,
)
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.epochs import epoch_json, field_words
from sparkhaven.jobs.monitor.streams import StreamFacts, table_streams
from sparkhaven.jobs.monitor.texts import ago, iso_time
from sparkhaven.jobs.operations.epoch_changes import roll_back, shown_rows
from sparkhaven.jobs.operations.epoch_changes import undo as undo_epochs
from sparkhaven.store.epochs.files.stream_notes import StreamFailure
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_stream
from sparkhaven.store.epochs.recovery.witnesses import require_stream
from sparkhaven.store.epochs.state.log_values import absent_in, ignored_in
from sparkhaven.store.epochs.undo import epochs_of_file, epochs_of_offsets
from sparkhaven.store.errors import SettingsError, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, user_tables
from sparkhaven.writers.removal.table_removal import remove_stream


def register(app: typer.Typer) -> None:
    streams = group("List streams, and remove those of which no row is left.")
    end = help_end("streams list Nyc13.Flight", bad_data="a stream cannot be read", usage="no such database or table")
    streams.command("list", epilog=end)(list_)
    end = help_end(
        "streams remove Nyc13.Flight flights --dry-run",
        done="removed",
        usage="no such table or stream, the stream has rows or locations, or is running",
        retry="a merge or removal of the table is running",
    )
    streams.command(epilog=end)(remove)
    app.add_typer(streams, name="streams")
    epochs = group("List, show, roll back and undo epochs of a stream.")
    usage = "wrong options, no such table, stream or epoch"
    epochs.command("list", epilog=help_end("epochs list Nyc13.Flight flights", usage=usage))(show_epochs)
    epochs.command(epilog=help_end("epochs show Nyc13.Flight flights --epoch 7", usage=usage))(show)
    line, retry = "epochs rollback Nyc13.Flight flights --to 6 --dry-run", "the stream or a merge runs"
    usage += ", or its rows are merged"
    epochs.command(epilog=help_end(line, done="rolled back", usage=usage, retry=retry))(rollback)
    lines = (
        "epochs undo Nyc13.Flight flights --epoch 7 --dry-run",
        "epochs undo NS.T STREAM --offsets flights:0:500-600",
    )
    epochs.command(epilog=help_end(*lines, done="undone", usage=usage, retry=retry))(undo)
    app.add_typer(epochs, name="epochs")


def list_(cli: CliContext, name: AnyTableArgument = None) -> None:
    """Lists streams with source, epochs, rows and last commit.

    `left` says what is left of a stream: rows, truncated locations, or only its commit log. A start or a removal that
    was killed leaves files. `running` is the process that holds its lock. `failed` is its last failure, unless it has
    succeeded since. --json has all parts of the error.
    """
    fs, layout = Fs(), cli.database()
    if name is not None:
        load_deployed(TablePlace(fs, layout, TableName.parse(name)))
    summaries: list[StreamFacts] = []
    for table_name in user_tables(fs, layout) if name is None else [TableName.parse(name)]:
        try:
            summaries += table_streams(TablePlace(fs, layout, table_name))
        except SparkhavenError as error:  # list the streams of the other tables all the same
            cli.report(error, table=str(table_name))
    now = time.time()
    header = ["table", "stream", "feed", "epochs", "rows", "last commit", "running", "left", "failed"]

    def print_text() -> None:
        table(header, [_cells(summary, now) for summary in summaries])

    cli.result({"streams": [_json(summary) for summary in summaries]}, print_text)


def remove(cli: CliContext, name: TableArgument, stream: StreamArgument, dry_run: DryRun = False) -> None:
    """Removes a stream of which no row is left.

    It has never committed, or its rows are all merged, truncated and deleted. Its commit log and positions go, and
    Spark's checkpoint. History and the quarantine stay.

    A stream that is started under this name later begins at the beginning of its source. It ingests again what the
    source still has.

    It is safe to kill: a repeat finishes the removal.
    """
    done = remove_stream(cli.place(name).of_stream(stream), clock=time.time, dry_run=dry_run)
    files = [str(path) for path in done.files]
    record: dict[str, Any] = {"table": name, "stream": stream, "epoch": done.epoch, "files": files}
    words = "would remove" if dry_run else "removed"
    lines = [*done.recovered, *(f"{words} {path}" for path in files)]

    def print_text() -> None:
        for line in lines:
            print(line)
        print(f"{words} stream {stream} of {name}. A new one begins at the beginning of its source")

    cli.result({**record, "recovered": list(done.recovered), "dry_run": dry_run}, print_text)


def _cells(summary: StreamFacts, now: float) -> list[object]:
    last = None if summary.last_ms is None else f"{ago(now - summary.last_ms / 1000)} ago"
    running = None if summary.running is None else f"process {summary.running}" if summary.running > 0 else "yes"
    failure = summary.failure
    failed = (
        f"{ago(now - failure.time_ms / 1000)} ago: {failure.error}" if isinstance(failure, StreamFailure) else failure
    )
    counts = [summary.epochs, summary.rows, last, running, summary.left, failed]
    return [summary.table, summary.stream, summary.feed, *counts]


def _json(stream: StreamFacts) -> dict[str, Any]:
    shown = ("table", "stream", "feed", "epoch", "epochs", "rows", "locations", "running", "left")
    failure = asdict(stream.failure) if isinstance(stream.failure, StreamFailure) else stream.failure
    last = None if stream.last_ms is None else iso_time(stream.last_ms, "milliseconds")
    return {**{name: getattr(stream, name) for name in shown}, "failure": failure, "last_commit": last}


def show_epochs(cli: CliContext, stream: OneStream) -> None:
    """Lists epochs since the rollback floor."""
    place = stream.place(cli)
    state = require_stream(place)
    entries = list_epochs(place)
    listed = [epoch_json(entry) for entry in entries]
    unit = "messages" if state.offsets else "files"
    header = [
        "epoch",
        "kind",
        "live",
        "time",
        "rows",
        unit,
        "locations",
        "restores",
        "undoes",
        "withdrawn",
        "generation",
    ]

    def print_text() -> None:
        table(header, [[_cell(entry[key]) for key in header] for entry in listed])
        print(f"epoch {state.epoch}, floor {state.floor}: a rollback accepts any epoch from the floor on")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation}
    cli.result({**_about(place), **numbers, "epochs": listed}, print_text)


def show(
    cli: CliContext,
    stream: OneStream,
    epoch: Annotated[int | None, typer.Option(metavar="N", help="Default: the newest.")] = None,
) -> None:
    """Shows the state of one epoch: locations and positions."""
    place = stream.place(cli)
    state = require_stream(place)
    if epoch is not None:
        state = load_stream(place, epoch=epoch)
    header = ["source", "date", "rows", "withdrawn", "since", "epoch"]
    located = [
        {
            "source": key.internal,
            "date": key.value,
            "rows": location.shown_rows,
            "withdrawn": location.withdrawn.rows,
            "since": location.since,
            "epoch": location.epoch,
        }
        for key, location in sorted(state.locations.items())
    ]
    rows = shown_rows(state)
    entries = list_epochs(place)
    counts = next((dict(entry.counts) for entry in entries if entry.epoch == state.epoch), {})

    def print_text() -> None:
        table(header, [[location[key] for key in header] for location in located])
        if state.offsets:
            table(["topic partition", "next offset"], [list(position) for position in positions.items()])
        print(
            f"epoch {state.epoch}: {counted(rows, 'row')} in {counted(len(located), 'location')}, "
            f"generation {state.generation}"
        )
        if ignored_in(counts):
            print(f"fields without a column: {field_words(ignored_in(counts))}")
        if absent_in(counts):
            print(f"no field for columns: {field_words(absent_in(counts))}")

    numbers = {"epoch": state.epoch, "floor": state.floor, "generation": state.generation, "rows": rows}
    positions = state.offsets.positions()
    remembered = {"files": len(state.files), "positions": positions, "counts": counts}
    cli.result({**_about(place), **numbers, **remembered, "locations": located}, print_text)


def rollback(
    cli: CliContext,
    stream: OneStream,
    to: Annotated[int, typer.Option(metavar="N", min=0, help="The epoch to restore.")],
    dry_run: DryRun = False,
) -> None:
    """Restores the state of an older epoch as a new epoch.

    Source positions are restored too: the stream ingests what came after them again.
    """
    place = stream.place(cli)
    done = roll_back(place, to, cli.note, dry_run=dry_run)
    dropped, epoch = done.rows, done.epoch
    record = {**_about(place), "to": to, "epoch": epoch, "rows_dropped": dropped, "dry_run": dry_run}
    verb = "drop" if dropped >= 0 else "bring back"  # rows that an epoch since has withdrawn
    words = f"would {verb}" if dry_run else {"drop": "dropped", "bring back": "brought back"}[verb]
    said = f"{words} {counted(abs(dropped), 'row')}"
    cli.result(record, said if dry_run else f"epoch {to} is restored as epoch {epoch}, {said}")


def undo(
    cli: CliContext,
    stream: OneStream,
    epoch: Annotated[int | None, typer.Option(metavar="N", min=1, help="The epoch to undo.")] = None,
    source_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The epoch that took this file: its path, or the end of that.")
    ] = None,
    offsets: Annotated[
        str | None, typer.Option(metavar="TOPIC:P:A-B", help="The epochs that took offsets A to B (B is not taken).")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Takes out the rows of one epoch, as a new epoch.

    Later epochs stay, and so do source positions: the stream does not ingest the rows again.
    """
    given = [word for word in (epoch, source_file, offsets) if word is not None]
    if len(given) != 1:
        raise SettingsError(
            "no epoch was given" if not given else "the epoch to undo is named in two ways",
            expected="one of --epoch N, --source-file FILE, --offsets TOPIC:P:A-B",
            found="none" if not given else " and ".join(map(str, given)),
            hint=f"`sparkhaven epochs list {stream.name} {stream.stream}` shows the epochs with their offsets",
        )
    place = stream.place(cli)
    require_stream(place)
    if epoch is not None:
        undone = [epoch]
    elif source_file is not None:
        undone = epochs_of_file(place, source_file)
    else:
        undone = epochs_of_offsets(place, *_offsets(offsets or ""))
    done = undo_epochs(place, undone, cli.note, dry_run=dry_run)
    record = {
        **_about(place),
        "undone": undone,
        "epoch": done.epoch,
        "rows": done.rows,
        "locations": [list(location) for location in done.locations],
        "dry_run": dry_run,
    }
    numbers = f"epoch{'s' if len(undone) > 1 else ''} {', '.join(map(str, undone))}"
    words = f"{counted(done.rows, 'row')} of {numbers} in {counted(len(done.locations), 'location')}"
    if not done.locations:
        words = f"nothing to do: {numbers} {'were' if len(undone) > 1 else 'was'} {done.reason}"
    else:
        words = f"would undo {words}" if dry_run else f"epoch {done.epoch} undoes {words}"
    cli.result(record, words)


def _offsets(text: str) -> tuple[str, int, int, int]:
    """Topic, partition, first offset and the one after the last, of ``topic:p:a-b``."""
    match = re.fullmatch(r"(.+):([0-9]+):([0-9]+)-([0-9]+)", text)
    if match is None or int(match[3]) >= int(match[4]):
        raise SettingsError(
            "--offsets is no range of offsets",
            expected="TOPIC:PARTITION:FIRST-STOP, like flights:0:500-600",
            found=text,
        )
    return match[1], int(match[2]), int(match[3]), int(match[4])


def _about(place: StreamPlace) -> dict[str, str]:
    return {"table": str(place.table), "stream": place.stream}


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
