"""The commands ``recover``, of streams after a crash or damage, and ``checkpoint repair``, of Spark's checkpoint."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.operations.recovering import (
    RebuildKeywords,
    RecoveredStream,
    Recovery,
    RecoveryRequest,
    position_choice,
    recover_streams,
)
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.rebuild import PositionChoice
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import check_stream
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
        given = RebuildKeywords(
            position=self.position or (),
            taken_until=self.taken_until,
            accept_positions=self.accept_positions,
            back_to_known=self.back_to_known,
        )
        return position_choice(given)


def register(app: typer.Typer) -> None:
    lines = "recover", "recover Nyc13.Flight flights --from-locations --dry-run"
    bad_data, usage = "a stream cannot be recovered", "wrong options, no such table or stream"
    retry = "a stream runs, a volume is not mounted, no space on the disk"
    end = help_end(*lines, done="all streams are sound", bad_data=bad_data, usage=usage, retry=retry)
    app.command(epilog=end)(recover)
    checkpoints = group("Repair Spark's checkpoint of a query.")
    lines = "checkpoint repair /data/checkpoint", "checkpoint repair /data/checkpoint Nyc13.Flight flights --repair"
    usage = "wrong options, no such directory, table or stream"
    checkpoints.command(
        epilog=help_end(*lines, done="no damage, or repaired", bad_data="damage was found", usage=usage)
    )(repair)
    app.add_typer(checkpoints, name="checkpoint")


def recover(
    cli: CliContext,
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
    asked = RecoveryRequest(name, stream, quarantine or (), rebuild.from_locations, rebuild.choice, dry_run)
    done = recover_streams(cli.database(), asked, cli.note)
    if done.rebuilt is not None and done.dry_run:
        cli.result({"rebuilt": asdict(done.rebuilt), "dry_run": True}, "dry run: nothing was changed")
        return
    streams = [_json(cli, recovered) for recovered in done.streams]
    record: dict[str, Any] = {"streams": streams, "findings": [entry for entry in streams if not entry["clean"]]}
    record |= {"set_aside": list(map(asdict, done.set_aside)), "rebuilt": done.rebuilt and asdict(done.rebuilt)}
    cli.result({**record, "dry_run": done.dry_run}, lambda: _show(done, streams))


def _json(cli: CliContext, done: RecoveredStream) -> dict[str, Any]:
    entry: dict[str, Any] = {"table": str(done.table), "stream": done.stream}
    if done.report is not None:
        return entry | {"clean": done.report.clean, **asdict(done.report)}
    assert done.error is not None  # noqa: S101  one of both
    return entry | {"clean": False, "error": cli.failed("sparkhaven", done.error)}


def _show(done: Recovery, streams: list[dict[str, Any]]) -> None:
    header = ["table", "stream", "epoch", "clean", "cut_bytes", "log_bytes", "republished"]
    table(header, [[entry.get(key) for key in header] for entry in streams])
    for recovered in done.streams:
        for line in recovered.report.changes() if recovered.report is not None else ():
            typer.echo(f"{recovered.table} {recovered.stream}: {line}")


def repair(
    cli: CliContext,
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
    fs, query, batch = Fs(), None, None
    if name is not None and stream is None:
        raise SettingsError("a table is named without its stream", expected="NS.T STREAM, or neither", found=name)
    if name is not None and stream is not None:
        state = load_stream(cli.place(name).of_stream(check_stream(stream)))
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
        cli.fails(EXIT_BAD_DATA)
