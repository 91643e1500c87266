"""``checkpoint repair``: Spark's checkpoint of a query, after a power cut."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Annotated

import typer

from jobs.context import CliContext, DryRun, Json, Verbose, example, table
from store.epochs.files.load import load_stream
from store.errors import EXIT_BAD_DATA, SettingsError
from store.io.fs import Fs
from store.layout import TableName, check_stream
from writers.spark.checkpoint import apply_repair, plan_repair


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    group = typer.Typer(help="Spark's checkpoint of a query.", no_args_is_help=True, rich_markup_mode=None)
    lines = "checkpoint repair /data/checkpoint", "checkpoint repair /data/checkpoint Nyc13.Flight flights --repair"
    group.command(epilog=example(*lines))(repair)
    group.callback()(lambda: None)
    app.add_typer(group, name="checkpoint")


def repair(
    ctx: typer.Context,
    checkpoint: Annotated[Path, typer.Argument(metavar="DIR", help="The checkpointLocation of the query.")],
    name: Annotated[str | None, typer.Argument(metavar="[NS.T]", help="The table that the query writes.")] = None,
    stream: Annotated[str | None, typer.Argument(metavar="[STREAM]", help="Its stream.")] = None,
    fix: Annotated[bool, typer.Option("--repair", help="Repair it; without this it is only looked at.")] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Finds empty, torn and missing entries and batches ahead of the epochs; with --repair backs up and repairs."""
    cli: CliContext = ctx.obj
    if force:
        cli.note("--force is called --repair now; the old name goes with the next release")
        fix = True
    fs, query, batch = Fs(), None, None
    if name is not None and stream is None:
        raise SettingsError("a table without its stream", expected="NS.T STREAM, or neither", found=name)
    if name is not None and stream is not None:
        state = load_stream(fs, cli.database(), TableName.parse(name), check_stream(stream))
        query, batch = state.last_query, state.last_batch
    plan = plan_repair(fs, checkpoint, query_id=query, batch=batch, new_id=str(uuid.uuid4()))
    backup = checkpoint.with_name(f"{checkpoint.name}.backup-{int(time.time() * 1000)}")
    mended = fix and not dry_run and bool(plan.damages)
    if mended:
        apply_repair(fs, plan, backup)
    damages = [{"path": str(d.path), "what": d.what, "remedy": d.remedy} for d in plan.damages]

    def people() -> None:
        if damages:
            table(["path", "what", "remedy"], [[each["path"], each["what"], each["remedy"]] for each in damages])
        batches = f"planned up to batch {plan.last}, done up to {plan.done}"
        print(f"{len(damages)} damages; {'repaired, the old one is in ' + str(backup) if mended else batches}")

    result = {"checkpoint": str(checkpoint), "findings": damages, "last": plan.last, "done": plan.done}
    cli.result({**result, "repaired": mended, "backup": str(backup) if mended else None}, people)
    if damages and not mended:
        raise typer.Exit(EXIT_BAD_DATA)
