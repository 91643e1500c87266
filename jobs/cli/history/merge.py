"""The command ``merge``: its options, as values, what they ask for, and what it and ``import`` say of each date."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json
from sparkhaven.jobs.cli.history.partitions import roll_first
from sparkhaven.jobs.cli.options import DatedRun, DatesOption, DirectIo, help_end
from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, DateChoice, parse_choice
from sparkhaven.jobs.operations.merging import (
    MergeJob,
    MergeKeywords,
    asked_days,
    chosen_dates,
    days_without_history,
    merge_options,
    merged_dates,
    noted,
)
from sparkhaven.store.errors import (
    EXIT_BAD_DATA,
    SettingsError,
    SparkhavenError,
    TableNotFoundError,
    as_ours,
    counted,
    counted_with,
)
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.sync import SYNC_MODES
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.validator_rules import unbuilt_indexes
from sparkhaven.store.types.model import DISTRIBUTIONS, TableSchema
from sparkhaven.writers.merge.date_result import DateResult, MergeOutcome
from sparkhaven.writers.merge.plan.merge_pins import after_sync
from sparkhaven.writers.merge.plan.merge_plan import MAX_SUPPLEMENTS, MergeOptions
from sparkhaven.writers.partitions import parse_share

AllowEmptyOption = Annotated[bool, typer.Option("--allow-empty", help="No error where a date has no rows.")]
FillMissingOption = Annotated[
    bool, typer.Option("--fill-missing", help="Write an empty location for days of --dates without history.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit 1 if a day of --dates has no history in the end, with their names.")
]
SHOWN = 20
_VERBS = {
    MergeOutcome.PLANNED: "would merge {}",
    MergeOutcome.MERGED: "merged {}",
    MergeOutcome.SUPPLEMENT: "merged {} that came later",
    MergeOutcome.REWRITTEN: "merged {} again",
    MergeOutcome.IMPORTED: "imported {}",
    MergeOutcome.REPLACED: "imported {} in place of history",
    MergeOutcome.UPSERTED: "imported, {} together with history",
    MergeOutcome.RESUMED: "finished an interrupted merge of {}",
}


@dataclass(frozen=True, slots=True)
class MergedDates:
    """Which dates of which table, and what of days without rows."""

    name: Annotated[
        str | None, typer.Argument(metavar="NS.T", help="Namespace and table. Default with --status: all.")
    ] = None
    dates: DatesOption = None
    closed: Annotated[bool, typer.Option("--closed", help="All dates whose day has ended in their time zone.")] = False
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="Z", help="Time zone for --closed. Default: as the streams record it."),
    ] = None
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Grace period of --closed, after a day has ended.")
    ] = CLOSED_GRACE_S
    status: Annotated[bool, typer.Option("--status", help="Only report unfinished dates.")] = False
    allow_empty: AllowEmptyOption = False
    fill_missing: FillMissingOption = False
    strict: StrictOption = False

    @property
    def choice(self) -> DateChoice:
        """The dates of intraday; SettingsError where not exactly one option chooses them."""
        return parse_choice(self.dates, self.closed, zone=self.zone or "UTC", grace_s=self.grace)

    @property
    def days(self) -> list[str]:
        """The days that are asked for one by one."""
        return asked_days(self.dates, fill=self.fill_missing, strict=self.strict)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """In which order rows are kept, and which of those with equal keys."""

    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COL[:desc],...|none",
            help="Sort order inside groups. Texts by UTF-16 unit. Default: that of the date's last merge.",
        ),
    ] = None
    dedupe: Annotated[
        str | None,
        typer.Option(
            metavar="COL,...|none", help="Keep one row for each key. Default: as the date's last merge, or the schema."
        ),
    ] = None
    keep: Annotated[
        str | None, typer.Option(metavar="first|last", help="Which row --dedupe keeps. Default: first.")
    ] = None
    order_by: Annotated[
        str | None,
        typer.Option(
            "--order-by",
            metavar="COL",
            help="What is first and last. Texts by code point. Default: the order of the sources.",
        ),
    ] = None
    last_by: Annotated[
        str | None, typer.Option("--last-by", metavar="COL,...", help="Keep the last row for each key.")
    ] = None
    upsert: Annotated[
        str | None,
        typer.Option(metavar="COL,...", help="New rows replace those with equal keys that history has of the date."),
    ] = None

    @property
    def words(self) -> MergeKeywords:
        """The options as keywords of ``merge_options``."""
        return MergeKeywords(
            sort=self.sort,
            dedupe=self.dedupe,
            keep=self.keep,
            order_by=self.order_by,
            last_by=self.last_by,
            upsert=self.upsert,
        )


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Which rows of a date, and what of those that were merged or corrected before."""

    rewrite: Annotated[bool, typer.Option("--rewrite", help="Merge a merged date again, as a new generation.")] = False
    discard_corrections: Annotated[
        bool,
        typer.Option(
            "--discard-corrections", help="Merge again from intraday, without what commands changed or deleted."
        ),
    ] = False
    max_supplements: Annotated[
        int,
        typer.Option("--max-supplements", min=0, metavar="N", help="After so many, late rows merge their date anew."),
    ] = MAX_SUPPLEMENTS


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """In which form history is written, where, and how it is synced."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Files of history: deephaven (column files), parquet (table.parquet), both, or default (the schema's)."
            " Without it: that of the date's last merge.",
        ),
    ] = None
    distribution: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DISTRIBUTIONS),
            help="How storage partitions are chosen. Default: as last, or the schema's.",
        ),
    ] = None
    only_partitions: Annotated[
        str | None,
        typer.Option("--only-partitions", metavar="NAME,...", help="Write only to these. Default: all writable ones."),
    ] = None
    roll_above: Annotated[
        str | None,
        typer.Option("--roll-above", metavar="PERCENT", help="First roll partitions on a fuller volume, like 90%."),
    ] = None
    roll_to: Annotated[
        Path | None,
        typer.Option(
            "--roll-to", metavar="DIR", parser=local_path, help="Volume for --roll-above, as partitions roll."
        ),
    ] = None
    sync_mode: Annotated[
        str, typer.Option("--sync-mode", metavar="|".join(SYNC_MODES), help="When column files are synced.")
    ] = SYNC_MODES[0]
    direct_io: DirectIo = False
    max_columns: Annotated[
        int | None,
        typer.Option("--max-columns", min=1, metavar="N", help="Columns of a date at once. Default: one a worker."),
    ] = None

    def roll(self, cli: CliContext, place: TablePlace, *, dry_run: bool) -> Callable[[int], None]:
        """What rolls full partitions before so many bytes are written, where that is asked for. SettingsError."""
        if self.roll_above is not None:
            limit = parse_share(self.roll_above, "--roll-above")
            return partial(roll_first, cli, place, limit, self.roll_to, dry_run=dry_run)
        if self.roll_to is not None:
            raise SettingsError(
                "--roll-to has no effect without --roll-above", expected="--roll-above 90% beside it", found="none"
            )
        return lambda coming: None


def register(app: typer.Typer) -> None:
    lines = (
        "merge Nyc13.Flight --dates 2013-07-04",
        "merge Nyc13.Flight --closed",
        "merge --status",
    )
    end = help_end(
        *lines,
        done="merged, or nothing new to merge, with --allow-empty also no rows or no dates",
        bad_data="a date failed, --strict found dates without history",
        usage="wrong options, no such table or dates",
        retry="another merge runs, rows are not synced yet, no space on the disk",
    )
    app.command(epilog=end)(merge)


def merge(
    cli: CliContext,
    asked: MergedDates,
    rows: MergedRows,
    order: RowOrder,
    files: HistoryFiles,
    run: DatedRun,
) -> None:
    """Merges dates from intraday into sorted, grouped history.

    Symbols are deduplicated. Equal row counts and digests prove that history holds the same rows. At the end replaced
    generations are removed whose grace period is over, as by `clean`.

    The merge runs in Spark. Few rows are merged in this process instead, with the same result on disk. A line on
    standard error says which.
    """
    if asked.status:
        from sparkhaven.jobs.cli.history.status import show_status  # which merges do not need

        show_status(cli, Fs(), cli.database(), asked.name)
        return
    if asked.name is None:
        raise SettingsError("no table is named", expected="NS.T, like Nyc13.Flight", found="none", hint="see --help")
    days, choice = asked.days, asked.choice
    place = cli.place(asked.name, DirectFs() if files.direct_io else None)
    schema = load_deployed(place)
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        cli.note(unbuilt)
    options = replace(
        asked_options(cli, schema, order, files, run),
        rewrite=rows.rewrite,
        discard_corrections=rows.discard_corrections,
        allow_empty=asked.allow_empty,
        max_supplements=rows.max_supplements,
        fill_missing=asked.fill_missing,
    )
    job = MergeJob(place, schema, options, run.of(cli), days, files.roll(cli, place, dry_run=run.dry_run))
    cli.expect_log()
    values, none = chosen_dates(job, choice, ask_zone=asked.closed and asked.zone is None)
    done: set[str] = set()
    if none is not None:
        show_nothing(cli, job, none)
    results = noted(merged_dates(job, values), done)
    if values:
        show_dates(cli, job, results)
    list(results)  # what follows history follows it where no date is merged, too
    if asked.strict:
        report_missing(cli, job, done)


def asked_options(
    cli: CliContext, schema: TableSchema, order: RowOrder, files: HistoryFiles, run: DatedRun
) -> MergeOptions:
    """What ``merge`` and ``import`` have in common. SettingsError: a word is none of its option."""
    given = MergeKeywords(
        **order.words,
        memory=run.workers.bytes,
        workers=run.workers.workers,
        format=files.format,
        distribution=files.distribution,
        only_partitions=files.only_partitions,
        sync_mode=files.sync_mode,
        max_columns=files.max_columns,
        parallel_rows=cli.limits.merged_rows,
    )
    return merge_options(schema, given)


def show_nothing(cli: CliContext, job: MergeJob, error: TableNotFoundError) -> None:
    """Says why no date was merged, where that is no error."""
    why = f"{error.what}: expected {error.expected}, found {error.found}"
    cli.note(f"0 dates merged ({why})")
    nothing = {
        "table": job.name,
        "outcome": MergeOutcome.NOTHING,
        "dates": 0,
        "message": why,
        "dry_run": job.run.dry_run,
    }
    cli.result(nothing, "nothing to merge")


def show_dates(
    cli: CliContext,
    job: MergeJob,
    results: Iterable[DateResult],
    more: Callable[[DateResult], Mapping[str, object]] = lambda _: {},
) -> None:
    """Prints one result a date as it comes, with ``more`` members; the exit code is that of the first error."""
    name, dry_run = job.name, job.run.dry_run
    rows, seconds, dates = 0, 0.0, 0
    begun = time.monotonic()
    for merged in results:
        rows += merged.rows_in if dry_run else merged.rows_out
        dates, seconds = dates + 1, time.monotonic() - begun
        record = {
            "table": name,
            "date": merged.value,
            "outcome": merged.outcome,
            "phase": merged.phase,
            "rows_in": merged.rows_in,
            "rows_out": merged.rows_out,
            "destinations": {internal: None if dry_run else n for internal, n in merged.destinations},
            "generation": merged.generation,
            "sort": list(merged.sort),
            "format": merged.format,
            "distribution": merged.distribution,
            "columns_dropped": dict(merged.drops),
            "columns_corrected": sorted({correction.name for correction in merged.corrections}),
            "rows_dropped": merged.left_out,
            "rows_identical": merged.identical,
            "rows_withdrawn": merged.withdrawn,
            "waiting_rows": merged.waiting,
            "intraday_rows": merged.intraday,
            "seconds": round(merged.seconds, 3),
            "phase_ms": dict(merged.phase_ms),
            "dry_run": dry_run,
            **more(merged),
        }
        if merged.error is not None:
            record["error"] = cli.failed(merged.value, merged.error)
        if merged.clean_error is not None:
            record["clean_error"] = error_json(as_ours(merged.clean_error))
        cli.result(record, f"{merged.value}: {_sentence(merged)}")
        if merged.clean_error is not None:
            cli.note(_left_behind(name, merged, as_ours(merged.clean_error)))
        if merged.waiting and merged.error is None:
            left_out = counted_with(merged.waiting, "row", "are not synced to disk yet and are left out")
            cli.note(f"{merged.value}: {left_out}. To do: {after_sync(job.place.table)}, then merge again")
        if merged.intraday and merged.error is None:
            there = f"intraday still has {counted(merged.intraday, 'row')} of this date, not merged"
            cli.note(f"{merged.value}: {there}. Reads show these too, and the next merge adds them")
    planned = " to merge (dry run)" if dry_run else ""
    cli.note(f"{counted(dates, 'date')}, {counted(rows, 'row')}{planned} in {seconds:.1f} s")


def _left_behind(name: str, merged: DateResult, error: SparkhavenError) -> str:
    state = "the merge failed, and files of it" if merged.error is not None else "is published, but files of a merge"
    return (
        f"{merged.value}: {state} could not be removed ({error}). No row is affected. End the cause, then"
        f" `sparkhaven merge {name} --dates {merged.value}` removes them"
    )


def _sentence(merged: DateResult) -> str:
    if merged.outcome in (MergeOutcome.NOTHING, MergeOutcome.UNCHANGED):
        return f"{'merged' if merged.outcome is MergeOutcome.NOTHING else 'imported'} before, nothing new"
    if merged.outcome in (MergeOutcome.EMPTY, MergeOutcome.FAILED):
        return merged.outcome
    partitions = _partitions(merged.destinations)
    if merged.outcome is MergeOutcome.FILLED:
        return f"filled: an empty location in {partitions}"
    rows = counted(merged.rows_in if merged.outcome is MergeOutcome.PLANNED else merged.rows_out, "row")
    return _VERBS[merged.outcome].format(rows) + (f" into {partitions}" if partitions else "") + _details(merged)


def _partitions(destinations: Sequence[tuple[str, int]]) -> str:
    """Where rows went; with their numbers if that is several partitions."""
    if len(destinations) == 1:
        return f"partition {destinations[0][0]}"
    return ", ".join(f"partition {name} ({rows:,})" if rows else f"partition {name}" for name, rows in destinations)


def _details(merged: DateResult) -> str:
    parts = [f"sorted by {', '.join(merged.sort)}"] if merged.sort else []
    if merged.format in ("parquet", "both"):
        parts.append("as Parquet" if merged.format == "parquet" else "as column files and Parquet")
    if merged.withdrawn:
        parts.append(f"without {counted(merged.withdrawn, 'withdrawn row')}")
    if duplicates := merged.left_out - merged.withdrawn:
        equal = f"{merged.identical:,} of them equal to a kept row"
        parts.append(f"without {counted(duplicates, 'duplicate')} ({equal})")
    if merged.corrections:
        names = ", ".join(sorted({correction.name for correction in merged.corrections}))
        parts.append(f"{names} as rewrite-column has changed {'it' if ',' not in names else 'them'}")
    if merged.drops:
        dropped = ", ".join(f"{name} ({counted(rows, 'row')} with values)" for name, rows in merged.drops)
        parts.append(f"without {dropped}")
    return "".join(f", {part}" for part in parts)


def report_missing(cli: CliContext, job: MergeJob, done: Collection[str]) -> None:
    """Says which of the named days have no history in the end, which is the exit code then.

    ``done``: dates without an error, which a dry run would have merged.
    """
    missing = days_without_history(job.place, job.days, done if job.run.dry_run else ())
    if not missing:
        return
    more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
    text = f"{counted(len(missing), 'day')} without history: {', '.join(missing[:SHOWN])}{more}"
    record = {"table": job.name, "outcome": "missing", "dates": list(missing), "dry_run": job.run.dry_run}
    cli.result(record, text)
    cli.note("merge with --fill-missing writes an empty location for each of them")
    cli.code = EXIT_BAD_DATA
