"""The command ``merge``: its options, as values, and what they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, exit_with
from sparkhaven.jobs.cli.groups import DatedRun, with_groups
from sparkhaven.jobs.cli.history.merge_run import MergeJob, asked_days, merge_intraday, merge_source
from sparkhaven.jobs.cli.history.partitions import roll_limit
from sparkhaven.jobs.cli.options import (
    DatesOption,
    DirectIo,
    LayoutOption,
    LossyOption,
    RawValuesOption,
    ValueOption,
    help_end,
)
from sparkhaven.jobs.date_choice import CLOSED_GRACE_S, DateChoice, parse_choice
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.early_sync import SYNC_MODES, SyncMode
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.schema.document.schema_checks import unbuilt_indexes
from sparkhaven.store.types.dedupe import DedupeRule
from sparkhaven.store.types.model import DISTRIBUTIONS, TableSchema
from sparkhaven.writers.merge.plan.dedupe_options import parse_dedupe
from sparkhaven.writers.merge.plan.merge_plan import (
    FORMATS,
    MAX_SUPPLEMENTS,
    PARALLEL_ROWS,
    Format,
    MergeOptions,
    schema_format,
)
from sparkhaven.writers.merge.plan.partition_choice import parse_distribution, parse_names
from sparkhaven.writers.merge.sources.sort_keys import parse_sort

if TYPE_CHECKING:
    from sparkhaven.jobs.cli.history.merge_from import Source

DEFAULT_FORMAT = "default"


@dataclass(frozen=True, slots=True)
class MergeSource:
    """Rows of another source than intraday."""

    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TREE|DELTA|SQL",
            help="Merge rows of Parquet files, a Delta table or a SELECT over tables, and not of intraday.",
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of --from that the table lacks. May be repeated."),
    ] = None
    lossy: LossyOption = None
    layout: LayoutOption = "auto"
    raw_values: RawValuesOption = False
    value: ValueOption = None

    @property
    def options(self) -> list[str]:
        """The options of ``--from`` that are given."""
        given = {"--ignore": self.ignore, "--lossy": self.lossy, "--layout": self.layout != "auto"}
        given |= {"--raw-values": self.raw_values, "--value": self.value is not None}
        return [name for name, is_given in given.items() if is_given]

    def of_dates(self, dates: list[str] | None) -> Source:
        from sparkhaven.jobs.cli.history.merge_from import Source  # which other merges do not need

        taken, names = tuple(dates) if dates else None, (tuple(self.ignore or ()), tuple(self.lossy or ()))
        return Source(self.source or "", taken, *names, self.layout, self.raw_values, self.value)


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
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="No error where a date has no rows.")] = False
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Write an empty location for days of --dates without history.")
    ] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 if a day of --dates has no history in the end, with their names.")
    ] = False

    @property
    def choice(self) -> DateChoice:
        """The dates of intraday; SettingsError where not exactly one option chooses them."""
        return parse_choice(self.dates, self.closed, zone=self.zone or "UTC", grace_s=self.grace)

    @property
    def days(self) -> list[str]:
        """The days that are asked for one by one."""
        return asked_days(self.dates, fill=self.fill_missing, strict=self.strict)

    def refuse_mixed(self, source: MergeSource) -> None:
        """SettingsError for ``--closed`` with ``--from``, and for options of ``--from`` without it."""
        if source.source is not None and self.closed:
            raise SettingsError("--closed chooses dates of intraday", expected="--from without --closed", found="both")
        if source.source is None and source.options:
            option = source.options[0]
            what = f"{option} is for the rows of --from"
            raise SettingsError(what, expected=f"--from with {option}", found="no --from")


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Which rows of a date, in which order, and what of those that were merged or corrected before."""

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
    def again(self) -> bool:
        """Whether merged dates are merged once more."""
        return self.rewrite or self.discard_corrections

    def dedupe_rule(self, schema: TableSchema) -> DedupeRule | None:
        rule = {"dedupe": self.dedupe, "keep": self.keep, "last_by": self.last_by, "upsert": self.upsert}
        return parse_dedupe(schema, **rule, order_by=self.order_by)


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


def register(app: typer.Typer) -> None:
    lines = (
        "merge Nyc13.Flight --dates 2013-07-04",
        "merge Nyc13.Flight --closed",
        "merge Nyc13.Flight --from /data/corrected --dates 2013-07-04 --rewrite",
        "merge --status",
    )
    end = help_end(
        *lines,
        done="merged, or nothing new to merge, with --allow-empty also no rows or no dates",
        bad_data="a date failed, --strict found dates without history",
        usage="wrong options, no such table or dates",
        retry="another merge runs, rows are not synced yet, no space on the disk",
    )
    app.command(epilog=end)(with_groups(merge))


def merge(
    ctx: typer.Context,
    asked: MergedDates,
    rows: MergedRows,
    files: HistoryFiles,
    source: MergeSource,
    run: DatedRun,
) -> None:
    """Merges dates from intraday into sorted, grouped history.

    With --from the rows are those of the source, and not of intraday. Rows that are intraday stay there.

    Symbols are deduplicated. Equal row counts and digests prove that history holds the same rows. At the end replaced
    generations are removed whose grace period is over, as by `clean`.

    The merge runs in Spark. Few rows are merged in this process instead, with the same result on disk. A line on
    standard error says which.
    """
    cli: CliContext = ctx.obj
    if asked.status:
        from sparkhaven.jobs.cli.history.status import show_status  # which merges do not need

        exit_with(show_status(cli, Fs(), cli.database(), asked.name))
        return
    if asked.name is None:
        raise SettingsError("no table is named", expected="NS.T, like Nyc13.Flight", found="none", hint="see --help")
    days = asked.days
    asked.refuse_mixed(source)
    choice = None if source.source is not None else asked.choice
    place = TablePlace(DirectFs() if files.direct_io else Fs(), cli.database(), TableName.parse(asked.name))
    schema = load_deployed(place)
    if (unbuilt := unbuilt_indexes(schema)) is not None:
        cli.note(unbuilt)
    options = MergeOptions(
        sort=parse_sort(rows.sort, schema),
        dedupe=rows.dedupe_rule(schema),
        rewrite=rows.rewrite,
        discard_corrections=rows.discard_corrections,
        allow_empty=asked.allow_empty,
        memory=run.workers.bytes,
        workers=run.workers.workers or 1,
        format=_format(files.format, schema),
        distribution=parse_distribution(files.distribution),
        only=parse_names(files.only_partitions),
        sync_mode=_sync_mode(files.sync_mode),
        max_columns=files.max_columns,
        max_supplements=rows.max_supplements,
        parallel_rows=cli.limits.merged_rows or PARALLEL_ROWS,
        fill_missing=asked.fill_missing,
    )
    job = MergeJob(
        cli,
        place,
        schema,
        options,
        days=days,
        strict=asked.strict,
        rolling=roll_limit(files.roll_above, files.roll_to),
        roll_to=files.roll_to,
        where=run.workers.where,
        workers=run.workers.workers,
        stop_on_error=run.stop_on_error,
        dry_run=run.dry_run,
    )
    cli.expect_log()
    if choice is None:
        exit_with(merge_source(job, source.of_dates(asked.dates)))
    else:
        exit_with(merge_intraday(job, choice, ask_zone=asked.closed and asked.zone is None))


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
