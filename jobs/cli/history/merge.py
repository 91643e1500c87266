"""The command ``merge``: dates from intraday to history."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with
from sparkhaven.jobs.cli.history.merge_runner import spark_executor
from sparkhaven.jobs.cli.history.merged_dates import noted, show_dates
from sparkhaven.jobs.cli.history.missing_dates import asked_days, days_without_history, report_missing
from sparkhaven.jobs.cli.history.partitions import roll_first, roll_limit
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DirectIo,
    DryRun,
    LayoutOption,
    LocalOption,
    LossyOption,
    RawValuesOption,
    SparkOption,
    StopOnErrorOption,
    ValueOption,
    WorkersOption,
    chosen_runner,
    help_end,
    memory_bytes,
    old_spelling,
)
from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, DateChoice, intraday_dates, parse_choice, recorded_zone
from sparkhaven.jobs.session.spark_or_local import choose, choose_for_merge, is_submitted, rows_of
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import EXIT_DONE, SettingsError, TableNotFoundError
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.early_sync import SYNC_MODES, SyncMode
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.schema_checks import unbuilt_indexes
from sparkhaven.store.types.model import DISTRIBUTIONS, TableSchema
from sparkhaven.writers.exports.following import follow
from sparkhaven.writers.merge.coming_bytes import coming_bytes
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.executor import Executor, LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.dedupe_options import parse_dedupe
from sparkhaven.writers.merge.plan.merge_plan import (
    FORMATS,
    MAX_SUPPLEMENTS,
    PARALLEL_ROWS,
    Format,
    MergeOptions,
    chosen_format,
    schema_format,
)
from sparkhaven.writers.merge.plan.partition_choice import parse_distribution, parse_names
from sparkhaven.writers.merge.sources.sort_keys import parse_sort

DEFAULT_FORMAT = "default"


def register(app: typer.Typer) -> None:
    lines = (
        "merge Nyc13.Flight --dates 2013-07-04",
        "merge Nyc13.Flight --closed",
        "merge Nyc13.Flight --from /data/corrected --dates 2013-07-04 --rewrite",
        "merge --status",
    )
    done = "merged, or nothing new to merge, with --allow-empty also no rows or no dates"
    usage = "wrong options, no such table or dates"
    retry = "another merge runs, rows are not synced yet, no space on the disk"
    app.command(
        epilog=help_end(
            *lines, done=done, bad_data="a date failed, --strict found dates without history", usage=usage, retry=retry
        )
    )(merge)


def merge(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NS.T", help="Namespace and table. Default with --status: all.")
    ] = None,
    dates: DatesOption = None,
    closed: Annotated[bool, typer.Option("--closed", help="All dates whose day has ended in their time zone.")] = False,
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="Z", help="Time zone for --closed. Default: as the streams record it."),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Grace period of --closed, after a day has ended.")
    ] = CLOSED_GRACE_S,
    status: Annotated[bool, typer.Option("--status", help="Only report unfinished dates.")] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Merge a merged date again, as a new generation.")] = False,
    discard_corrections: Annotated[
        bool,
        typer.Option(
            "--discard-corrections", help="Merge again from intraday, without what commands changed or deleted."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Files of history: deephaven (column files), parquet (table.parquet), both, or default (the schema's)."
            " Without it: that of the date's last merge.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COL[:desc],...|none",
            help="Sort order inside groups. Texts by UTF-16 unit. Default: that of the date's last merge.",
        ),
    ] = None,
    dedupe: Annotated[
        str | None,
        typer.Option(
            metavar="COL,...|none", help="Keep one row for each key. Default: as the date's last merge, or the schema."
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="first|last", help="Which row --dedupe keeps. Default: first.")
    ] = None,
    order_by: Annotated[
        str | None,
        typer.Option(
            "--order-by",
            metavar="COL",
            help="What is first and last. Texts by code point. Default: the order of the sources.",
        ),
    ] = None,
    last_by: Annotated[
        str | None, typer.Option("--last-by", metavar="COL,...", help="Keep the last row for each key.")
    ] = None,
    upsert: Annotated[
        str | None,
        typer.Option(metavar="COL,...", help="New rows replace those with equal keys that history has of the date."),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DISTRIBUTIONS),
            help="How storage partitions are chosen. Default: as last, or the schema's.",
        ),
    ] = None,
    only_partitions: Annotated[
        str | None,
        typer.Option("--only-partitions", metavar="NAME,...", help="Write only to these. Default: all writable ones."),
    ] = None,
    roll_above: Annotated[
        str | None,
        typer.Option("--roll-above", metavar="PERCENT", help="First roll partitions on a fuller volume, like 90%."),
    ] = None,
    roll_to: Annotated[
        Path | None,
        typer.Option(
            "--roll-to", metavar="DIR", parser=local_path, help="Volume for --roll-above, as partitions roll."
        ),
    ] = None,
    sync_mode: Annotated[
        str, typer.Option("--sync-mode", metavar="|".join(SYNC_MODES), help="When column files are synced.")
    ] = SYNC_MODES[0],
    direct_io: DirectIo = False,
    max_columns: Annotated[
        int | None,
        typer.Option("--max-columns", min=1, metavar="N", help="Columns of a date at once. Default: one a worker."),
    ] = None,
    max_supplements: Annotated[
        int,
        typer.Option("--max-supplements", min=0, metavar="N", help="After so many, late rows merge their date anew."),
    ] = MAX_SUPPLEMENTS,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TREE|DELTA|SQL",
            help="Merge rows of Parquet files, a Delta table or a SELECT over tables, and not of intraday.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of --from that the table lacks. May be repeated."),
    ] = None,
    lossy: LossyOption = None,
    layout: LayoutOption = "auto",
    raw_values: RawValuesOption = False,
    value: ValueOption = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="No error where a date has no rows.")] = False,
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Write an empty location for days of --dates without history.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 if a day of --dates has no history in the end, with their names.")
    ] = False,
    workers: WorkersOption = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of one worker.")] = "1GiB",
    local: LocalOption = False,
    spark: SparkOption = False,
    stop_on_error: StopOnErrorOption = False,
    dry_run: DryRun = False,
) -> None:
    """Merges dates from intraday into sorted, grouped history.

    With --from the rows are those of the source, and not of intraday. Rows that are intraday stay there.

    Symbols are deduplicated. Equal row counts and digests prove that history holds the same rows. At the end replaced
    generations are removed whose grace period is over, as by `clean`.

    The merge runs in Spark. Few rows are merged in this process instead, with the same result on disk. A line on
    standard error says which.
    """
    cli: CliContext = ctx.obj
    if status:
        from sparkhaven.jobs.cli.history.status import show_status  # which merges do not need

        code = show_status(cli, Fs(), cli.database(), name)
        exit_with(code)
        return
    if name is None:
        raise SettingsError("no table is named", expected="NS.T, like Nyc13.Flight", found="none", hint="see --help")
    days = asked_days(dates, fill=fill_missing, strict=strict)
    tree = {"--layout": layout != "auto", "--raw-values": raw_values, "--value": value is not None}
    _refuse_mixed(source, closed=closed, given={"--ignore": bool(ignore), "--lossy": bool(lossy)} | tree)
    zone_given = "UTC" if zone is None else zone
    choice = None if source is not None else parse_choice(dates, closed, zone=zone_given, grace_s=grace)
    place = TablePlace(DirectFs() if direct_io else Fs(), cli.database(), TableName.parse(name))
    schema = load_deployed(place)
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        cli.note(unbuilt)
    if force:
        old_spelling(cli, "--force", "--rewrite")
        rewrite = True
    options = MergeOptions(
        sort=parse_sort(sort, schema),
        dedupe=parse_dedupe(schema, dedupe=dedupe, keep=keep, last_by=last_by, upsert=upsert, order_by=order_by),
        rewrite=rewrite,
        discard_corrections=discard_corrections,
        allow_empty=allow_empty,
        memory=memory_bytes(memory),
        workers=workers or 1,
        format=_format(format_, schema),
        distribution=parse_distribution(distribution),
        only=parse_names(only_partitions),
        sync_mode=_sync_mode(sync_mode),
        max_columns=max_columns,
        max_supplements=max_supplements,
        parallel_rows=cli.limits.merged_rows or PARALLEL_ROWS,
        fill_missing=fill_missing,
    )
    rolling = roll_limit(roll_above, roll_to)
    where = chosen_runner(local, spark)
    cli.expect_log()
    with ExitStack() as opened:
        count = workers or local_workers()
        here = opened.enter_context(LocalExecutor(count if local else min(count, local_workers())))
        start_spark = partial(spark_executor, opened, place, "sparkhaven merge", workers, verbose=cli.verbose)
        run = partial(merge_dates, place, options=options, clock=time.time, dry_run=dry_run, on_progress=cli.note)
        executor: Executor = here
        code, values, done = EXIT_DONE, list[str](), set[str]()
        if choice is None:
            from sparkhaven.jobs.cli.history.merge_from import Source, merge_from  # which other merges do not need

            fixed = choose(where, is_submitted(os.environ))
            executor = start_spark() if fixed is not None and not fixed.local and not dry_run else here
            if rolling is not None:
                roll_first(cli, place, rolling, roll_to, dry_run=dry_run)
            taken, names = tuple(dates) if dates else None, (tuple(ignore or ()), tuple(lossy or ()))
            given = Source(source or "", taken, *names, layout, raw_values, value)
            results = merge_from(cli, place, schema, given, options, executor=executor, dry_run=dry_run)
            code = show_dates(cli, name, noted(results, done, stop_on_error), dry_run)
        else:
            merged, states = all_values(place), newest_states(place)
            try:
                again_too = rewrite or discard_corrections
                ask_zone = closed and zone is None
                values = _values(place.table, choice, states, merged, rewrite=again_too, ask_zone=ask_zone)
            except TableNotFoundError as error:
                if not allow_empty and not days:
                    raise
                if not fill_missing or not days_without_history(place, days):
                    _show_nothing(cli, name, error, dry_run)
        if fill_missing:
            values = sorted({*values, *days_without_history(place, days, {*values, *done})})
        if choice is not None and values and rolling is not None:
            copies = 1 if chosen_format(options, schema) == "deephaven" else 2
            again_too = rewrite or discard_corrections
            coming = coming_bytes(place, states, values, rewrite=again_too, copies=copies)
            roll_first(cli, place, rolling, roll_to, coming=coming, dry_run=dry_run)
        if choice is not None and values and not dry_run:
            again = [value for value in values if value in merged]
            rows = rows_of(states, set(values).difference(again))
            planned = merge_dates(place, again, options, executor=here, clock=time.time, dry_run=True)
            chosen = choose_for_merge(where, is_submitted(os.environ), rows, planned, options.parallel_rows)
            cli.note(f"merges {'in this process, without Spark' if chosen.local else 'in Spark'}: {chosen.why}")
            executor = here if chosen.local else start_spark()
        if values:
            results = run(values=values, executor=executor, stop_on_error=stop_on_error)
            code = show_dates(cli, name, noted(results, done), dry_run) or code
        if strict:
            missing = days_without_history(place, days, done if dry_run else ())
            code = report_missing(cli, name, missing, dry_run) or code
        if not dry_run:
            follow(place, cli.note)
    exit_with(code)


def _refuse_mixed(source: str | None, *, closed: bool, given: Mapping[str, bool]) -> None:
    """SettingsError for options of intraday with ``--from``, and for those of ``--from`` without it."""
    if source is not None and closed:
        raise SettingsError("--closed chooses dates of intraday", expected="--from without --closed", found="both")
    option = next((name for name, is_given in given.items() if is_given), None)
    if source is None and option is not None:
        raise SettingsError(f"{option} is for the rows of --from", expected=f"--from with {option}", found="no --from")


def _show_nothing(cli: CliContext, name: str, error: TableNotFoundError, dry_run: bool) -> None:
    why = f"{error.what}: expected {error.expected}, found {error.found}"
    cli.note(f"0 dates merged ({why})")
    nothing = {"table": name, "outcome": MergeOutcome.NOTHING, "dates": 0, "message": why, "dry_run": dry_run}
    cli.result(nothing, "nothing to merge")


def _values(
    table: TableName, choice: DateChoice, states: list[StreamState], merged: list[str], *, rewrite: bool, ask_zone: bool
) -> list[str]:
    again = merged if rewrite else []
    if ask_zone:
        choice = replace(choice, zone=recorded_zone(table, states))
    return choice.pick({*intraday_dates(states), *again}, time.time(), lambda: merged)


def _format(word: str | None, schema: TableSchema) -> Format | None:
    """None: that of the date's last merge."""
    if word is None:
        return None
    for format_ in FORMATS:
        if word.lower() == format_:
            return format_
    if word.lower() == DEFAULT_FORMAT:
        return schema_format(schema)
    raise SettingsError("unknown --format", expected=", ".join((DEFAULT_FORMAT, *FORMATS)), found=repr(word))


def _sync_mode(word: str) -> SyncMode:
    for mode in SYNC_MODES:
        if word == mode:
            return mode
    raise SettingsError("unknown --sync-mode", expected=", ".join(SYNC_MODES), found=repr(word))
