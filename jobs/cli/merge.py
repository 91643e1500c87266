"""The command ``merge``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated

import typer

from ingest.settings.units import parse_size
from jobs.context import CliContext, DryRun, Json, Verbose, error_json, example
from jobs.date_choice import CLOSED_GRACE_S, DateChoice, intraday_dates, newest_states, parse_choice, recorded_zone
from jobs.operations.merge_status import show_status
from jobs.session.spark_session import build_session, end_session
from store.errors import EXIT_DONE, SettingsError, TableNotFoundError
from store.io.fs import Fs
from store.io.system_errors import as_ours
from store.layout import Layout, TableName
from store.merges.records import all_values
from store.schema.deployed.deploy import load_deployed
from writers.merge.dates import DateResult, merge_dates
from writers.merge.executor import Executor, LocalExecutor
from writers.merge.plan.keys import parse_sort
from writers.merge.plan.pins import after_sync
from writers.merge.plan.plan import MergeOptions
from writers.merge.spark import SparkExecutor

DateOption = Annotated[str | None, typer.Option("--date", metavar="D", help="One date, like 2013-07-04.")]
DatesOption = Annotated[str | None, typer.Option("--dates", metavar="A..B", help="All dates from A to B.")]
FORMATS = ("default", "deephaven")
EXITS = (
    "Exit codes: 0 merged, or nothing new to merge; with --allow-empty also no rows, no dates · 1 a date failed · "
    "2 no such table or dates, wrong options · 3 worth retrying: another merge runs, rows are not synced, no room."
)


def register(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    lines = (
        "merge Nyc13.Flight --date 2013-07-04",
        "merge Nyc13.Flight --closed",
        "merge --status",
    )
    app.command(epilog=f"{example(*lines)}\n\n{EXITS}")(merge)


def merge(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NS.T", help="Namespace and table; may miss with --status.")
    ] = None,
    date: DateOption = None,
    dates: DatesOption = None,
    closed: Annotated[bool, typer.Option("--closed", help="All dates whose day is over in their time zone.")] = False,
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="Z", help="With --closed: that time zone; default: as the streams record it."),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="With --closed: time after the end of a day.")
    ] = CLOSED_GRACE_S,
    status: Annotated[bool, typer.Option("--status", help="Only tell what is unfinished.")] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Merge a merged date again, as a new generation.")] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,
    format_: Annotated[str, typer.Option("--format", help="default (the schema's) or deephaven.")] = "default",
    sort: Annotated[
        str | None,
        typer.Option(metavar="COL[:desc],...|none", help="Order inside groups; default: that of the last merge."),
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="A date without rows is no error.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Tasks at once; default: all cores, 1 with --local.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory of one worker, like 1GiB.")] = "1GiB",
    local: Annotated[bool, typer.Option("--local", help="In this process, without Spark.")] = False,
    stop_on_error: Annotated[bool, typer.Option("--stop-on-error", help="The first failed date ends it.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Sorts dates into history: grouped, deduplicated symbols, proved equal to what came in.

    Replaced generations whose grace is over go at the end, as `clean` removes them.
    """
    cli: CliContext = ctx.obj
    if status:
        code = show_status(cli, Fs(), cli.database(), name)
        if code:
            raise typer.Exit(code)
        return
    if name is None:
        raise SettingsError("which table?", expected="NS.T, like Nyc13.Flight", found="none", hint="see --help")
    choice = parse_choice(date, dates, closed, zone="UTC" if zone is None else zone, grace_s=grace)
    fs, layout, parsed = Fs(), cli.database(), TableName.parse(name)
    schema = load_deployed(fs, layout, parsed)
    if force:
        cli.note("--force is called --rewrite now; the old name goes with the next release")
        rewrite = True
    options = MergeOptions(
        sort=parse_sort(sort, schema),
        rewrite=rewrite,
        allow_empty=allow_empty,
        memory=_memory(memory),
        workers=workers or 1,
    )
    _check_format(format_, schema.merge_format)
    merged = all_values(fs, layout, parsed) if rewrite else []
    try:
        values = _values(fs, layout, parsed, choice, merged, ask_zone=closed and zone is None)
    except TableNotFoundError as error:
        if not allow_empty:
            raise
        why = f"{error.what}: expected {error.expected}, found {error.found}"
        cli.note(f"0 dates merged; {why}")
        cli.result(
            {"table": name, "outcome": "nothing", "dates": 0, "message": why, "dry_run": dry_run}, "nothing to do"
        )
        return
    with ExitStack() as opened:
        if local or dry_run:
            executor: Executor = opened.enter_context(LocalExecutor(workers or 1))
        else:
            spark = build_session("sparkhaven merge", workers=workers, verbose=verbose)
            opened.callback(end_session, spark)
            executor = SparkExecutor(spark.sparkContext, layout.root, layout.schema(parsed), workers)
        results = merge_dates(
            fs,
            layout,
            parsed,
            values,
            options,
            executor=executor,
            clock=time.time,
            dry_run=dry_run,
            stop_on_error=stop_on_error,
            on_progress=cli.note,
        )
        code = _show(cli, name, results, dry_run)
    if code:
        raise typer.Exit(code)


def _values(
    fs: Fs, layout: Layout, table: TableName, choice: DateChoice, merged: list[str], *, ask_zone: bool
) -> list[str]:
    states = newest_states(fs, layout, table)
    if ask_zone:
        choice = replace(choice, zone=recorded_zone(table, states))
    return choice.pick({*intraday_dates(states), *merged}, time.time())


def _show(cli: CliContext, name: str, results: Iterator[DateResult], dry_run: bool) -> int:
    """One result a date, as they come; the exit code: that of the first error."""
    code, rows, seconds, dates = EXIT_DONE, 0, 0.0, 0
    begun = time.monotonic()
    for result in results:
        rows += result.rows_in if dry_run else result.rows_out
        dates, seconds = dates + 1, time.monotonic() - begun
        parts = ", ".join(f"{internal} {n:,}" if n else internal for internal, n in result.destinations)
        value = {
            "table": name,
            "date": result.value,
            "outcome": result.outcome,
            "phase": result.phase,
            "rows_in": result.rows_in,
            "rows_out": result.rows_out,
            "destinations": {internal: None if dry_run else n for internal, n in result.destinations},
            "generation": result.generation,
            "sort": list(result.sort),
            "waiting_rows": result.waiting,
            "seconds": round(result.seconds, 3),
            "dry_run": dry_run,
        }
        if result.error is not None:
            failed = as_ours(result.error)
            code = code or failed.exit_code
            cli.note(f"{result.value}: {failed}")
            value["error"] = error_json(failed)
        cli.result(value, f"{result.value}: {_sentence(result, parts)}")
        if result.waiting and result.error is None:
            left_out = f"{result.waiting:,} rows are not on disk yet and are left out"
            cli.note(f"{result.value}: {left_out}; {after_sync(TableName.parse(name))}, then merge again")
    cli.note(f"{dates:,} dates, {rows:,} rows{' to merge (dry run)' if dry_run else ''} in {seconds:.1f} s")
    return code


def _sentence(result: DateResult, parts: str) -> str:
    if result.outcome == "nothing":
        return "is merged, nothing new to do"
    order = f", sorted by {', '.join(result.sort)}" if result.sort else ""
    if result.outcome == "planned":
        return f"would merge {result.rows_in:,} rows" + (f" to {parts}" if parts else "") + order
    if result.outcome in ("empty", "failed"):
        return result.outcome
    return f"{result.outcome}, {result.rows_out:,} rows to {parts or 'nowhere'}{order}"


def _memory(text: str) -> int:
    try:
        return parse_size(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise SettingsError("--memory is not understood", expected=str(error), found=text) from None


def _check_format(asked: str, of_schema: str) -> None:
    chosen = {"default": of_schema, "deephaven": "DeephavenV1", "parquet": "Parquet"}.get(asked.lower())
    if chosen is None:
        raise SettingsError("--format is not known", expected=" or ".join(FORMATS), found=asked)
    if chosen != "DeephavenV1":
        raise SettingsError(
            f"merging as {chosen} is not in this release",
            expected="deephaven",
            found=asked if asked != "default" else f"defaultMergeFormat {of_schema} of the schema",
            hint="give --format deephaven",
        )
