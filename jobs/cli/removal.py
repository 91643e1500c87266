"""Commands that take intraday rows away, in two phases and with proof: ``truncate``, then ``delete``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from jobs.cli.merge import DateOption, DatesOption
from jobs.cli.validation import AllowUnevaluated
from jobs.context import CliContext, DryRun, Json, TableArgument, Verbose, example, report
from jobs.date_choice import DateChoice, intraday_dates, newest_states, parse_choice
from store.errors import EXIT_DONE, SparkhavenError
from store.io.fs import Fs
from store.layout import TableName
from store.schema.deployed.deploy import load_deployed
from writers.merge.plan.pins import Pins
from writers.merge.publish_phase import GRACE_S
from writers.removal import remove
from writers.removal.proof import prove
from writers.removal.remove import Removed
from writers.removal.states import States

SourceOption = Annotated[str | None, typer.Option("--source", metavar="S", help="One internal partition only.")]


EXITS = (
    "Exit codes: 0 done, or nothing to remove · 1 a date failed: no proof, damaged files · 2 no such table, dates or "
    "merge, wrong options · 3 worth retrying: another job holds the lock, a volume is not mounted, no room."
)


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command(epilog=f"{example('truncate Nyc13.Flight --date 2013-07-04 --dry-run')}\n\n{EXITS}")(truncate)
    app.command(epilog=f"{example('delete Nyc13.Flight --dates 2013-07-01..2013-07-31')}\n\n{EXITS}")(delete)


def truncate(
    ctx: typer.Context,
    name: TableArgument,
    date: DateOption = None,
    dates: DatesOption = None,
    source: SourceOption = None,
    allow_unevaluated: AllowUnevaluated = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Empties the intraday locations of merged dates; refused without the proof that history holds all rows.

    A date needs a passed validation; one that was never validated, or not since its last merge, is validated first.
    """
    chosen = _Chosen(name, parse_choice(date, dates), source, allow_unevaluated, dry_run)
    _remove(ctx.obj, chosen, remove.truncate)


def delete(
    ctx: typer.Context,
    name: TableArgument,
    date: DateOption = None,
    dates: DatesOption = None,
    source: SourceOption = None,
    grace: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time since the truncate.")] = GRACE_S,
    allow_unevaluated: AllowUnevaluated = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Removes the files of truncated dates once no reader can be using them; then new rows of a date may come."""
    chosen = _Chosen(name, parse_choice(date, dates), source, allow_unevaluated, dry_run)
    _remove(ctx.obj, chosen, remove.delete, grace_s=grace)


@dataclass(frozen=True, slots=True)
class _Chosen:
    name: str
    choice: DateChoice
    source: str | None
    allow_unevaluated: bool
    dry_run: bool


def _remove(cli: CliContext, chosen: _Chosen, phase: Callable[..., Removed], **options: Any) -> None:
    name, dry_run = chosen.name, chosen.dry_run
    fs, layout, table = Fs(), cli.database(), TableName.parse(name)
    load_deployed(fs, layout, table)
    locations = rows = 0
    begun = time.monotonic()
    states, pins = States(fs, layout, table), Pins(fs, layout, table)
    code = EXIT_DONE
    for value in chosen.choice.pick(intraday_dates(newest_states(fs, layout, table)), time.time()):
        try:
            proof = prove(
                fs,
                layout,
                table,
                value,
                tolerant=chosen.allow_unevaluated,
                dry_run=dry_run,
                time_ms=int(time.time() * 1000),
                pins=pins,
                on_progress=cli.note,
            )
            done = phase(
                fs,
                layout,
                table,
                value,
                proof=proof,
                clock=time.time,
                source=chosen.source,
                dry_run=dry_run,
                states=states,
                **options,
            )
        except SparkhavenError as error:  # each date has its own proof: one that is refused keeps no other back
            failed = report(cli, error, table=name, date=value)
            code = code or failed
            continue
        locations, rows = locations + len(done.locations), rows + done.rows
        listed = [{"stream": stream, "source": internal, "rows": n} for stream, internal, n in done.locations]
        result = {"table": name, "date": value, "phase": done.phase, "locations": listed, "rows": done.rows}
        text = f"{value}: {done.phase} of {len(listed)} locations, {done.rows:,} rows{' (dry run)' if dry_run else ''}"
        cli.result({**result, "dry_run": dry_run}, text)
    cli.note(f"{locations:,} locations, {rows:,} rows in {time.monotonic() - begun:.1f} s")
    if code:
        raise typer.Exit(code)
