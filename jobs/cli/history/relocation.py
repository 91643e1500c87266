"""Commands on where dates of history lie: ``dates move``."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DryRun,
    StopOnErrorOption,
    TableArgument,
    WorkersOption,
    help_end,
)
from sparkhaven.jobs.date_choice import parse_choice
from sparkhaven.store.errors import EXIT_DONE
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.write.phases import Failure
from sparkhaven.writers.relocation.date_moves import move_dates

MOST_COPIES = 4  # dates at once: a volume copies no faster with more


def register(dates: typer.Typer) -> None:
    move_end = help_end(
        "dates move Nyc13.Flight --dates 2013-01-01..2013-03-31 --to archive --dry-run",
        done="done, or the dates are there",
        bad_data="a date failed: damaged, or not merged",
        usage="wrong options, no such table, dates or storage partition, files of another user",
        retry="a merge runs, the volume is not mounted or has no space",
    )
    dates.command(epilog=move_end)(move)


def move(
    ctx: typer.Context,
    name: TableArgument,
    to: Annotated[str, typer.Option("--to", metavar="PARTITION", help="Storage partition that the dates move to.")],
    dates: DatesOption = None,
    workers: WorkersOption = None,
    stop_on_error: StopOnErrorOption = False,
    dry_run: DryRun = False,
) -> None:
    """Moves dates of history to another storage partition.

    Files are copied as they are, synced, and read back: checksums and digests must be those of the merge. Then one
    merge record switches readers over. Later merges of the date write to the new partition, too. The former files are
    removed an hour later, by the next merge or `clean`. Ingest goes on. Merges of the table are refused.

    `partitions add NS NAME --volume DIR` makes a storage partition on another volume.
    """
    cli: CliContext = ctx.obj
    place = place_of(cli, name)
    values = parse_choice(dates).pick(with_rows(place), time.time(), lambda: all_values(place), "merged ")
    results = move_dates(
        place,
        values,
        to,
        clock=time.time,
        workers=workers or min(MOST_COPIES, os.cpu_count() or 1),
        dry_run=dry_run,
        stop_on_error=stop_on_error,
        on_progress=cli.note,
    )
    code, table = EXIT_DONE, str(place.table)
    count = rows = size = 0
    for value, done in zip(values, results, strict=False):
        if isinstance(done, Failure):
            failed = report(cli, as_ours(done.error), table=table, date=value)
            code = code or failed
            continue
        count, rows, size = count + bool(done.generation), rows + done.rows, size + done.size
        verb = "is there," if not done.generation else "would move" if dry_run else "moved"
        cli.result(
            {
                "table": table,
                "date": value,
                "rows": done.rows,
                "bytes": done.size,
                "from": list(done.origin),
                "to": to,
                "generation": done.generation,
                "dry_run": dry_run,
            },
            f"{value}: {verb} {done.rows:,} rows, {done.size:,} bytes, {', '.join(done.origin)} to {to}",
        )
    later = ". The former files go in an hour, by the next merge or `clean`" if count else ""
    cli.result(
        {"table": table, "dates": count, "rows": rows, "bytes": size, "dry_run": dry_run},
        f"{count:,} dates, {rows:,} rows, {size:,} bytes" + (" (dry run)" if dry_run else later),
    )
    exit_with(code)


def place_of(cli: CliContext, name: str) -> TablePlace:
    """The deployed table that a command names."""
    place = TablePlace(Fs(), cli.database(), TableName.parse(name))
    load_deployed(place)
    return place


def with_rows(place: TablePlace) -> list[str]:
    """The merged dates that have history."""
    return [value for value in all_values(place) if (record := newest(place, value)) is not None and record.outputs]
