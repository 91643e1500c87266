"""The commands ``merge --status``, which reports unfinished dates, and ``clean``."""

from __future__ import annotations

import time
from collections.abc import Callable

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with, report
from sparkhaven.jobs.cli.history.drop_table import drop_json, drop_line
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.jobs.monitor.dates import DateStatus, DateValidation, table_status
from sparkhaven.store.errors import EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import doomed, dropped_tables
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed, user_tables
from sparkhaven.writers.merge.publish.replaced_files import Replaced, clean
from sparkhaven.writers.removal.table_removal import due_s, finish_drop


def register(app: typer.Typer) -> None:
    lines = "clean Nyc13.Flight --dry-run", "clean"
    done, retry = "done, also if nothing may be removed yet", "a merge runs"
    app.command("clean", epilog=help_end(*lines, done=done, bad_data="damaged records", retry=retry))(clean_command)


def show_status(cli: CliContext, fs: Fs, layout: Layout, name: str | None) -> int:
    """Prints totals and a line for every unfinished date, with ``-v`` for all; returns the exit code."""
    code = EXIT_DONE
    for table_name in _tables(fs, layout, name, user_tables):
        try:
            dates = table_status(TablePlace(fs, layout, table_name), time.time())
        except SparkhavenError as error:  # report the other tables all the same
            code = report(cli, error, table=str(table_name)) or code
            continue
        _show_table(cli, table_name, dates)
    return code


def _show_table(cli: CliContext, name: TableName, dates: list[DateStatus]) -> None:
    unfinished = [date for date in dates if not date.done]
    counts = {
        "dates": len(dates),
        "unmerged": sum(bool(date.unmerged) for date in dates),
        "unvalidated": sum(date.validation not in (DateValidation.PASSED, None) for date in dates),
        "untruncated": sum(bool(date.untruncated) for date in dates),
        "unfinished": sum(date.unfinished is not None for date in dates),
        "replaced": sum(len(date.replaced) for date in dates),
    }

    def print_text() -> None:
        numbers = ", ".join(f"{number:,} {state}" for state, number in counts.items() if state != "dates")
        print(f"{name}, {counts['dates']:,} dates: {numbers}")
        rows = [
            (e.value, e.unmerged, e.merged, e.validation, e.untruncated, e.unfinished, len(e.replaced))
            for e in (dates if cli.verbose else unfinished)
        ]
        if rows:
            header = "date", "unmerged rows", "merged rows", "validation", "untruncated rows", "unfinished after"
            table((*header, "replaced"), rows)

    cli.result({"table": str(name), **counts, "unfinished_dates": [_json(date) for date in unfinished]}, print_text)


def _json(date: DateStatus) -> dict[str, object]:
    return {
        "date": date.value,
        "unmerged_rows": date.unmerged,
        "merged_rows": date.merged,
        "generation": date.generation,
        "validation": date.validation,
        "untruncated_rows": date.untruncated,
        "unfinished_after": date.unfinished,
        "replaced": [_replaced(old) for old in date.replaced],
    }


def _replaced(old: Replaced) -> dict[str, object]:
    return {
        "date": old.value,
        "internal": old.internal,
        "path": str(old.path),
        "bytes": old.size,
        "due_s": round(old.due_s, 1),
    }


def clean_command(ctx: typer.Context, name: AnyTableArgument = None, dry_run: DryRun = False) -> None:
    """Removes replaced generations of history.

    Only once no reader can be using them. The same for files of dropped tables.
    """
    cli: CliContext = ctx.obj
    fs, layout = Fs(), cli.database()
    code = _finish_drops(cli, fs, layout, name, dry_run=dry_run)
    dropped = set(dropped_tables(fs, layout))
    if name is not None and TableName.parse(name) in dropped - set(deployed_tables(fs, layout)):
        exit_with(code)
        return
    for table_name in _tables(fs, layout, name, deployed_tables):
        try:
            gone, later = clean(TablePlace(fs, layout, table_name), time.time, dry_run=dry_run)
        except SparkhavenError as error:
            code = report(cli, error, table=str(table_name)) or code
            continue
        lists = {"removed": [_replaced(old) for old in gone], "waiting": [_replaced(old) for old in later]}
        size = sum(old.size for old in gone)
        verb = "would remove" if dry_run else "removed"
        text = f"{verb} {len(gone)} replaced locations, {size:,} bytes. {len(later)} in their grace period"
        lines = [f"{table_name}: {text}", *(f"  {old.path}" for old in gone)]
        lines += [f"  {old.path}: in {old.due_s:.0f} s" for old in later]
        cli.result({"table": str(table_name), "dry_run": dry_run, "bytes": size, **lists}, "\n".join(lines))
    exit_with(code)


def _finish_drops(cli: CliContext, fs: Fs, layout: Layout, name: str | None, *, dry_run: bool) -> int:
    """Removes the files of dropped tables whose grace period is over; the exit code."""
    code = EXIT_DONE
    for table_name in dropped_tables(fs, layout) if name is None else [TableName.parse(name)]:
        place = TablePlace(fs, layout, table_name)
        try:
            drop = doomed(place)
            if drop is None or fs.stat(place.schema) is not None:
                continue
            if not dry_run:
                drop = finish_drop(place, drop, clock=time.time)
        except SparkhavenError as error:
            code = report(cli, error, table=str(table_name)) or code
            continue
        waits = due_s(drop, time.time())
        cli.result({**drop_json(place, drop, waits), "dry_run": dry_run}, drop_line(drop, waits, dry_run=dry_run))
    return code


def _tables(
    fs: Fs, layout: Layout, name: str | None, all_tables: Callable[[Fs, Layout], list[TableName]]
) -> list[TableName]:
    if name is None:
        return all_tables(fs, layout)
    table_name = TableName.parse(name)
    load_deployed(TablePlace(fs, layout, table_name))
    return [table_name]
