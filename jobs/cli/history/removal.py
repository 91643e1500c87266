"""Commands that remove merged intraday rows in two phases, with proof: ``truncate``, then ``delete``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DryRun,
    GraceOption,
    TableArgument,
    UnevaluatedOption,
    help_end,
    with_groups,
)
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.jobs.operations.intraday_removal import IntradayRemoval, Phase, remove_intraday
from sparkhaven.store.errors import counted
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S


@dataclass(frozen=True, slots=True)
class IntradayDates:
    """Merged dates whose intraday rows go."""

    name: TableArgument
    dates: DatesOption = None
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="VALUE", help="Only this internal partition: its value, or its directory."),
    ] = None
    allow_unevaluated: UnevaluatedOption = False
    dry_run: DryRun = False


EXIT_CODES = {
    "done": "done, or nothing to remove",
    "bad_data": "a date failed: no proof, damaged files",
    "usage": "wrong options, no such table, dates or merge",
    "retry": "another job holds the lock, a volume is not mounted, no space on the disk",
}


def register(app: typer.Typer) -> None:
    app.command(epilog=help_end("truncate Nyc13.Flight --dates 2013-07-04 --dry-run", **EXIT_CODES))(
        with_groups(truncate)
    )
    app.command(epilog=help_end("delete Nyc13.Flight --dates 2013-07-01..2013-07-31", **EXIT_CODES))(
        with_groups(delete)
    )


def truncate(cli: CliContext, asked: IntradayDates) -> None:
    """Empties the intraday locations of merged dates.

    Only with the proof that history holds all their rows. A date needs a passed validation. A date without one since
    its last merge is validated first.
    """
    _remove(cli, "truncate", asked)


def delete(cli: CliContext, asked: IntradayDates, grace: GraceOption = GRACE_S) -> None:
    """Removes the files of truncated dates.

    Only once no reader can be using them. Rows that came since stay.
    """
    _remove(cli, "delete", asked, grace)


def _remove(cli: CliContext, phase: Phase, asked: IntradayDates, grace: float = GRACE_S) -> None:
    choice, name, dry_run = parse_choice(asked.dates), asked.name, asked.dry_run
    locations, rows, begun = 0, 0, time.monotonic()
    removal = IntradayRemoval(choice, asked.source, asked.allow_unevaluated, dry_run, grace)
    for date in remove_intraday(cli.place(name), phase, removal, cli.note):
        value, done = date.date, date.removed
        if date.error is not None or done is None:
            cli.report(date.error or RuntimeError(value), table=name, date=value)
            continue
        locations, rows = locations + len(done.locations), rows + done.rows
        listed = [{"stream": stream, "source": internal, "rows": n} for stream, internal, n in done.locations]
        result = {"table": name, "date": value, "phase": done.phase, "locations": listed, "rows": done.rows}
        text = f"{value}: {done.phase} of {counted(len(listed), 'location')}, {counted(done.rows, 'row')}"
        text += " (dry run)" if dry_run else ""
        if not (listed or done.since):
            text = f"{value}: nothing to {done.phase}, intraday has no rows of it"
        cli.result({**result, "dry_run": dry_run}, text)
        for line in done.unfinished:
            cli.note(line)
        if done.since:
            later = sum(count for _, _, count in done.since)
            cli.note(f"{value}: {counted(later, 'row')} came since. Merge the date again")
    cli.note(f"{counted(locations, 'location')}, {counted(rows, 'row')} in {time.monotonic() - begun:.1f} s")
