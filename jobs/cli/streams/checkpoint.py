"""The command ``checkpoint repair``: Spark's checkpoint of a query after a power failure."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun, group, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import EXIT_BAD_DATA, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName, check_stream
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.spark.checkpoint_repair import apply_repair, plan_repair


def register(app: typer.Typer) -> None:
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
