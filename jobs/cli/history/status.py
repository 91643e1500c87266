"""The commands ``merge --status``, which reports unfinished dates, and ``clean``."""

from __future__ import annotations

import time
from collections.abc import Callable

import typer

from sparkhaven.jobs.cli.context import CliContext, report
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, Json, Verbose, help_end
from sparkhaven.jobs.cli.text_table import table
from sparkhaven.store.errors import EXIT_DONE, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed, user_tables
from sparkhaven.writers.merge.publish.replaced_files import Replaced, clean
from sparkhaven.writers.merge.unfinished_work import DateStatus, table_status


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    lines = "clean Nyc13.Flight --dry-run", "clean"
    done, retry = "done, also if nothing may be removed yet", "a merge runs"
    app.command("clean", epilog=help_end(*lines, done=done, bad_data="damaged records", retry=retry))(clean_command)


def show_status(cli: CliContext, fs: Fs, layout: Layout, name: str | None) -> int:
    """Prints totals and a line for every unfinished date, with ``-v`` for all; returns the exit code."""
    code = EXIT_DONE
    for one in _tables(fs, layout, name, user_tables):
        try:
            found = table_status(fs, layout, one, time.time())
        except SparkhavenError as error:  # report the other tables all the same
            code = report(cli, error, table=str(one)) or code
            continue
        _show_table(cli, one, found)
    return code


def _show_table(cli: CliContext, name: TableName, found: list[DateStatus]) -> None:
    left = [each for each in found if not each.done]
    counts = {
        "dates": len(found),
        "unmerged": sum(bool(each.unmerged) for each in found),
        "unvalidated": sum(each.validation not in ("passed", None) for each in found),
        "untruncated": sum(bool(each.untruncated) for each in found),
        "unfinished": sum(each.unfinished is not None for each in found),
        "replaced": sum(len(each.replaced) for each in found),
    }

    def people() -> None:
        numbers = ", ".join(f"{number:,} {what}" for what, number in counts.items() if what != "dates")
        print(f"{name}, {counts['dates']:,} dates: {numbers}")
        rows = [
            (e.value, e.unmerged, e.merged, e.validation, e.untruncated, e.unfinished, len(e.replaced))
            for e in (found if cli.verbose else left)
        ]
        if rows:
            header = "date", "unmerged rows", "merged rows", "validation", "untruncated rows", "unfinished after"
            table((*header, "replaced"), rows)

    cli.result({"table": str(name), **counts, "unfinished_dates": [_json(each) for each in left]}, people)


def _json(each: DateStatus) -> dict[str, object]:
    return {
        "date": each.value,
        "unmerged_rows": each.unmerged,
        "merged_rows": each.merged,
        "generation": each.generation,
        "validation": each.validation,
        "untruncated_rows": each.untruncated,
        "unfinished_after": each.unfinished,
        "replaced": [_replaced(old) for old in each.replaced],
    }


def _replaced(old: Replaced) -> dict[str, object]:
    return {
        "date": old.value,
        "internal": old.internal,
        "path": str(old.path),
        "bytes": old.size,
        "due_s": round(old.due_s, 1),
    }


def clean_command(
    ctx: typer.Context,
    name: AnyTableArgument = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Removes replaced generations of history.

    Only once no reader can be using them.
    """
    cli: CliContext = ctx.obj
    fs, layout = Fs(), cli.database()
    code = EXIT_DONE
    for one in _tables(fs, layout, name, deployed_tables):
        try:
            gone, later = clean(fs, layout, one, time.time, dry_run=dry_run)
        except SparkhavenError as error:
            code = report(cli, error, table=str(one)) or code
            continue
        lists = {"removed": [_replaced(old) for old in gone], "waiting": [_replaced(old) for old in later]}
        size = sum(old.size for old in gone)
        verb = "would remove" if dry_run else "removed"
        text = f"{one}: {verb} {len(gone)} replaced locations, {size:,} bytes. {len(later)} in their grace period"
        lines = [f"  {old.path}" for old in gone]
        lines += [f"  {old.path}: in {old.due_s:.0f} s" for old in later]
        cli.result({"table": str(one), "dry_run": dry_run, "bytes": size, **lists}, "\n".join([text, *lines]))
    if code:
        raise typer.Exit(code)


def _tables(
    fs: Fs, layout: Layout, name: str | None, every: Callable[[Fs, Layout], list[TableName]]
) -> list[TableName]:
    if name is None:
        return every(fs, layout)
    one = TableName.parse(name)
    load_deployed(fs, layout, one)
    return [one]
