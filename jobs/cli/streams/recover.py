"""The commands ``recover``, of streams after a crash or damage, and ``checkpoint repair``, of Spark's checkpoint."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json, exit_with
from sparkhaven.jobs.cli.groups import with_groups
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.jobs.operations.rebuilding import parse_choice, rebuild_stream
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.recovery.directory_plan import damage_of
from sparkhaven.store.epochs.recovery.rebuild import PositionChoice
from sparkhaven.store.epochs.recovery.recover import RecoveryReport, preview_recovery
from sparkhaven.store.epochs.recovery.set_aside import SetAside, set_aside
from sparkhaven.store.epochs.recovery.witnesses import require_stream, streams_without_log
from sparkhaven.store.errors import (
    EXIT_BAD_DATA,
    EXIT_DONE,
    SettingsError,
    SparkhavenError,
    TableNotFoundError,
    counted,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.read_only_roots import is_copy
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import Layout, LocationKey, TableName, check_partition, check_stream
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables
from sparkhaven.writers.spark.checkpoint_repair import apply_repair, plan_repair


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Whether a commit log is rebuilt, and where its stream goes on then."""

    from_locations: Annotated[
        bool, typer.Option("--from-locations", help="First rebuild a lost or outdated commit log. Needs NS.T STREAM.")
    ] = False
    position: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC/PARTITION=OFFSET", help="For a rebuilt log: the next message to read."),
    ] = None
    taken_until: Annotated[
        str | None, typer.Option(metavar="TIME", help="For a rebuilt log: files modified earlier count as ingested.")
    ] = None
    accept_positions: Annotated[
        bool, typer.Option("--accept-positions", help="For a rebuilt log: the known positions hold for all rows.")
    ] = False
    back_to_known: Annotated[
        bool, typer.Option("--back-to-known", help="For a rebuilt log: drop rows after the newest known state.")
    ] = False

    @property
    def choice(self) -> PositionChoice:
        """The positions that are chosen. SettingsError: choices that exclude each other, or cannot be parsed."""
        return parse_choice(self.position or [], self.taken_until, self.accept_positions, self.back_to_known)


def register(app: typer.Typer) -> None:
    lines = "recover", "recover Nyc13.Flight flights --from-locations --dry-run"
    bad_data, usage = "a stream cannot be recovered", "wrong options, no such table or stream"
    retry = "a stream runs, a volume is not mounted, no space on the disk"
    end = help_end(*lines, done="all streams are sound", bad_data=bad_data, usage=usage, retry=retry)
    app.command(epilog=end)(with_groups(recover))
    _register_checkpoint(app)


def recover(
    ctx: typer.Context,
    rebuild: Rebuild,
    name: AnyTableArgument = None,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="Default: all streams of the table.")] = None,
    quarantine: Annotated[
        list[str] | None,
        typer.Option(metavar="INTERNAL/DATE", help="First set this damaged location aside. Needs NS.T STREAM."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Runs crash recovery only, without ingest.

    Truncates and removes uncommitted data, republishes table.size, and names each path that it changes. A location that
    may be a copy from a backup is renamed, never removed. In a snapshot or a mirror it only reports.

    --quarantine sets a location with missing or short files aside: its directory is renamed in place and nothing is
    deleted. The stream continues without it, every later report names it, and reads that need its rows fail without
    --skip-set-aside.

    --from-locations rebuilds a commit log that is lost, or that was restored from an outdated copy. It reads the
    table.size of each location, and compares all bytes with their checksums. Source positions come from the newest log,
    checkpoint or head that can be read. Where locations are newer than these positions, choose one, best after a
    --dry-run. --back-to-known drops the newer rows, and the source is read again. --position (Kafka, Delta) and
    --taken-until (files) give the positions. --accept-positions keeps the known ones. Without a choice the stream
    ingests nothing until a second call makes one. The old files are kept in .streams/.replaced-N.
    """
    cli: CliContext = ctx.obj
    layout = cli.database()
    dry_run = dry_run or (is_copy(layout.root) and not rebuild.from_locations and not quarantine)
    choice = rebuild.choice
    rebuilt: dict[str, Any] | None = None
    aside: list[SetAside] = []
    if rebuild.from_locations:
        if name is None or stream is None:
            raise SettingsError(
                "--from-locations is given without a stream", expected="recover NS.T STREAM --from-locations"
            )
        named, locations = TableName.parse(name), [parse_location(text) for text in quarantine or []]
        place = StreamPlace(Fs(), layout, named, check_stream(stream))
        rebuilt = asdict(rebuild_stream(place, choice, locations, dry_run=dry_run, note=cli.note))
        if dry_run:
            cli.result({"rebuilt": rebuilt, "dry_run": True}, "dry run: nothing was changed")
            return
    elif choice.made:
        raise SettingsError(
            "positions are given without --from-locations", expected="recover NS.T STREAM --from-locations ..."
        )
    else:
        aside = set_locations_aside(cli, layout, name, stream, quarantine or [], dry_run=dry_run)
    streams: list[dict[str, Any]] = []
    changes: list[str] = []
    code = EXIT_DONE
    for table_place in streamed_tables(layout, name):
        for stream_name in chosen_streams(table_place, stream):
            entry: dict[str, Any] = {"table": str(table_place.table), "stream": stream_name}
            try:
                report = _recovered(table_place.of_stream(stream_name), dry_run)
                entry |= {"clean": report.clean, **asdict(report)}
                changes += [f"{table_place.table} {stream_name}: {line}" for line in report.changes()]
            except (SparkhavenError, OSError) as error:  # recover the other streams all the same
                failed = as_ours(error)
                code = code or failed.exit_code
                cli.note(f"sparkhaven: {failed}")
                entry |= {"clean": False, "error": error_json(failed)}
            streams.append(entry)
    findings = [entry for entry in streams if not entry["clean"]]
    cli.result(
        {
            "streams": streams,
            "findings": findings,
            "set_aside": list(map(asdict, aside)),
            "rebuilt": rebuilt,
            "dry_run": dry_run,
        },
        lambda: _show(streams, changes),
    )
    exit_with(code)


def _show(streams: list[dict[str, Any]], changes: list[str]) -> None:
    header = ["table", "stream", "epoch", "clean", "cut_bytes", "log_bytes", "republished"]
    table(header, [[entry.get(key) for key in header] for entry in streams])
    for line in changes:
        typer.echo(line)


def _recovered(place: StreamPlace, dry_run: bool) -> RecoveryReport:
    if dry_run:
        require_stream(place)
        return preview_recovery(place, time_ms=int(time.time() * 1000))
    with open_log(place) as log:
        return log.recovery


def chosen_streams(place: TablePlace, stream: str | None) -> list[str]:
    """The named stream of a table, or all streams that have a commit log or left files behind."""
    names = [*list_streams(place), *streams_without_log(place)]
    if stream is None:
        return names
    if check_stream(stream) not in names:
        raise TableNotFoundError(
            f"{place.table} has no stream {stream!r}", expected=", ".join(names) or "none", found=repr(stream)
        )
    return [stream]


def parse_location(text: str) -> LocationKey:
    """``INTERNAL/DATE``; InvalidNameError for anything else."""
    internal, _, date = text.partition("/")
    return LocationKey(check_partition("internal partition", internal), check_partition("date", date))


def set_locations_aside(
    cli: CliContext, layout: Layout, name: str | None, stream: str | None, locations: list[str], *, dry_run: bool
) -> list[SetAside]:
    if not locations:
        return []
    if name is None or stream is None:
        raise SettingsError(
            "--quarantine is given without a stream",
            expected="recover NS.T STREAM --quarantine INTERNAL/DATE",
            found=" ".join(filter(None, (name, stream))) or "neither",
        )
    place = StreamPlace(Fs(), layout, TableName.parse(name), check_stream(stream))
    state = require_stream(place)
    reports = []
    for location in locations:
        key = parse_location(location)
        if dry_run and key not in state.locations:
            raise TableNotFoundError(f"stream {stream!r} has no such location", found=location)
        if not dry_run:
            now = int(time.time() * 1000)
            reason = damage_of(place, state, key) or "requested"
            done = set_aside(place, key, reason=reason, time_ms=now)
            reports.append(done)
            cli.note(f"set aside {counted(done.rows, 'row')} of {location}: {done.path}")
    return reports


def streamed_tables(layout: Layout, name: str | None) -> list[TablePlace]:
    """The named table, or all tables that have streams, or had some."""
    fs = Fs()
    tables = deployed_tables(fs, layout) if name is None else [TableName.parse(name)]
    places = [TablePlace(fs, layout, table) for table in tables]
    streamed = [place for place in places if list_streams(place) or streams_without_log(place)]
    if name is not None and not streamed:
        raise TableNotFoundError(f"{name} has no streams", where=places[0].streams, hint=next_steps.TABLES)
    return streamed


def _register_checkpoint(app: typer.Typer) -> None:
    checkpoints = group("Repair Spark's checkpoint of a query.")
    lines = "checkpoint repair /data/checkpoint", "checkpoint repair /data/checkpoint Nyc13.Flight flights --repair"
    usage = "wrong options, no such directory, table or stream"
    checkpoints.command(
        epilog=help_end(*lines, done="no damage, or repaired", bad_data="damage was found", usage=usage)
    )(repair)
    app.add_typer(checkpoints, name="checkpoint")


def repair(
    ctx: typer.Context,
    checkpoint: Annotated[
        Path, typer.Argument(metavar="DIR", parser=local_path, help="The checkpointLocation of the query.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="[NS.T]", help="The table that the query writes.")] = None,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="Its stream.")] = None,
    fix: Annotated[bool, typer.Option("--repair", help="Back it up and repair it. Default: only report.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Finds and repairs damage of Spark's checkpoint.

    Damage is an empty, torn or missing entry, or a batch that is ahead of the epochs.
    """
    cli: CliContext = ctx.obj
    fs, query, batch = Fs(), None, None
    if name is not None and stream is None:
        raise SettingsError("a table is named without its stream", expected="NS.T STREAM, or neither", found=name)
    if name is not None and stream is not None:
        state = load_stream(StreamPlace(fs, cli.database(), TableName.parse(name), check_stream(stream)))
        query, batch = state.last_query, state.last_batch
    plan = plan_repair(fs, checkpoint, query_id=query, batch=batch, new_id=str(uuid.uuid4()))
    backup = checkpoint.with_name(f"{checkpoint.name}.backup-{int(time.time() * 1000)}")
    repaired = fix and not dry_run and bool(plan.damages)
    if repaired:
        apply_repair(fs, plan, backup)
    damages = [{"path": str(d.path), "what": d.what, "remedy": d.remedy} for d in plan.damages]

    def print_text() -> None:
        if damages:
            table(["path", "what", "remedy"], [list(damage.values()) for damage in damages])
        batches = f"planned up to batch {plan.last}, committed up to {plan.done}"
        print(f"{len(damages)} damaged entries. {'repaired, backup in ' + str(backup) if repaired else batches}")

    record = {"checkpoint": str(checkpoint), "findings": damages, "last": plan.last, "done": plan.done}
    cli.result({**record, "repaired": repaired, "backup": str(backup) if repaired else None}, print_text)
    if damages and not repaired:
        raise typer.Exit(EXIT_BAD_DATA)
