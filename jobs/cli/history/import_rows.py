"""The command ``import``: rows of a tree, a Delta table or a query into history."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.history.merge import (
    AllowEmptyOption,
    FillMissingOption,
    HistoryFiles,
    RowOrder,
    StrictOption,
    asked_options,
    report_missing,
    show_dates,
)
from sparkhaven.jobs.cli.options import (
    DatedRun,
    LossyOption,
    NullCharOption,
    TableArgument,
    help_end,
    split_dates,
)
from sparkhaven.jobs.operations.merging import MergeJob, asked_days, noted
from sparkhaven.jobs.session.spark_or_local import choose, is_submitted
from sparkhaven.jobs.settings.stream_schema import deploy_schema
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import refuse_malformed
from sparkhaven.store.schema.deployed.deploy import load_history
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.schema.document.validator_rules import unbuilt_indexes
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.null_char import chosen_null_char
from sparkhaven.writers.foreign_values import AllowedConversions, lossy_columns
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.transfer.date_import import DateImports, ImportOptions, ImportSource
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.frames import FrameChoice, FrameRows, ignored_columns, run_reader
from sparkhaven.writers.transfer.tree_walk import ValueTemplate
from sparkhaven.writers.transfer.trees import TreeRows, delta_tree, find_tree

_QUERY = re.compile(r"\s*\(*\s*(?:select|with|from|values)\b", re.IGNORECASE)


def _source(text: str) -> str:
    """A query, or the name of a directory. SettingsError: the name has a scheme that is not supported."""
    if not _QUERY.match(text):
        local_path(text)
    return text


@dataclass(frozen=True, slots=True)
class ImportedRows:
    """Whose rows are imported, and how they are read."""

    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TREE|DELTA|SQL",
            parser=_source,
            help="Parquet files, a Delta table, or a SELECT over tables named NS.T.",
        ),
    ]
    layout: Annotated[
        str, typer.Option("--layout", metavar="LAYOUT", help="nested, flat, kv, metadata or hive. auto detects it.")
    ] = "auto"
    raw_values: Annotated[
        bool, typer.Option("--raw-values", help="Directory names are values as they are. Default: %XX is undone.")
    ] = False
    value: Annotated[
        str | None,
        typer.Option(
            "--value",
            metavar="TEMPLATE",
            help="The date by keys of directories, like '{year}-{month:02}-{day:02}' or '{dt:date}'.",
        ),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that the table lacks. May be repeated.")
    ] = None
    lossy: LossyOption = None
    binary_as_text: Annotated[
        bool, typer.Option("--binary-as-text", help="Columns of bytes without annotation are texts in UTF-8.")
    ] = False
    null_char: NullCharOption = None

    def refuse_tree_options(self, kind: str) -> None:
        """SettingsError: an option is given that only trees have."""
        given = {"--layout": self.layout != "auto", "--raw-values": self.raw_values, "--value": self.value is not None}
        option = next((name for name, is_given in given.items() if is_given), None)
        if option is not None:
            raise SettingsError(
                f"{option} is for trees of Parquet files",
                where=f"--from {self.source}",
                expected="a tree, whose directories give the dates",
                found=kind,
                hint="leave it out: the rows have their dates",
            )

    def conversions(self, schema: TableSchema) -> AllowedConversions:
        """What the options allow. SettingsError: they name a column that they cannot name."""
        null, ignored = chosen_null_char(self.null_char, os.environ), ignored_columns(self.ignore or (), schema)
        return AllowedConversions(lossy_columns(schema, self.lossy or []), self.binary_as_text, null, ignored)


@dataclass(frozen=True, slots=True)
class ImportedDates:
    """Which dates, and what of those that history has, or that have no rows."""

    dates: Annotated[
        list[str] | None,
        typer.Option(
            "--dates",
            "--date",
            metavar="D|A..B",
            callback=split_dates,
            help="A date, or all dates from A to B, of the rows. May be repeated. The date of rows that have none.",
        ),
    ] = None
    replace: Annotated[bool, typer.Option("--replace", help="Replace dates that history has.")] = False
    allow_empty: AllowEmptyOption = False
    fill_missing: FillMissingOption = False
    strict: StrictOption = False


def register(app: typer.Typer) -> None:
    lines = (
        "import Nyc13.Flight --from /data/flights --dry-run",
        "import Nyc13.Flight --from /data/july4 --dates 2013-07-04 --replace",
        'import Nyc13.Flight --from "select * from Nyc13.Raw where flight > 0" --upsert flight',
    )
    end = help_end(
        *lines,
        done="imported, or imported before",
        bad_data="damaged files, a value that the table cannot hold, a date failed, or has no history with --strict",
        usage="wrong options, columns or types, no such table, history has a date already",
        retry="a merge runs, files were changed meanwhile, no space on the disk",
    )
    app.command("import", epilog=end)(import_rows)


def import_rows(
    cli: CliContext,
    name: TableArgument,
    given: ImportedRows,
    asked: ImportedDates,
    order: RowOrder,
    files: HistoryFiles,
    run: DatedRun,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.schema", parser=local_path, help="Deploy this schema first, for a table that is new."
        ),
    ] = None,
) -> None:
    """Imports files, a Delta table or a SELECT into history.

    Types are mapped strictly: a value that is not exactly representable is an error. Each date is ordered, grouped,
    checked by digests and published as by a merge. Rows that are intraday stay there.
    """
    fs, table = DirectFs() if files.direct_io else Fs(), TableName.parse(name)
    place = TablePlace(fs, cli.layout(), table)
    days = asked_days(asked.dates, fill=asked.fill_missing, strict=asked.strict)
    definition = _schema(fs, cli, table, schema, run.dry_run)
    if (unbuilt := unbuilt_indexes(definition)) is not None:
        cli.note(unbuilt)
    refuse_malformed(asked.dates or (), all_values(place), new=True)
    options = replace(
        asked_options(cli, definition, order, files, run),
        rewrite=asked.replace,
        allow_empty=asked.allow_empty,
        fill_missing=asked.fill_missing,
    )
    job = MergeJob(place, definition, options, run.of(cli), days, files.roll(cli, place, dry_run=run.dry_run))
    cli.expect_log()
    done: set[str] = set()
    with ExitStack() as opened:
        here, start_spark = job.run.executors(opened, place, "merge")
        fixed = choose(job.run.where, is_submitted(os.environ))
        rows = _rows(job, opened, given, tuple(asked.dates) if asked.dates else None)
        executor = start_spark() if fixed is not None and not fixed.local and not run.dry_run else here
        job.roll(0)
        imports = DateImports(place, definition, ImportOptions(asked.replace, options), executor, time.time, cli.note)
        results = imports.planned(rows) if run.dry_run else imports.locked(rows)

        def more(date: DateResult) -> Mapping[str, object]:
            said = {"from": rows.name, "layout": rows.layout, "digests": dict(date.digests)}
            return {**said, "rows": date.given[0], "files": date.given[1]}

        show_dates(cli, job, noted(results, done, run.stop_on_error), more)
        if missing := job.missing(done):
            show_dates(cli, job, noted(job.merge(sorted(missing), executor), done))
        if asked.strict:
            report_missing(cli, job, done)
        if not run.dry_run:
            follow(place, cli.note)


def _schema(fs: Fs, cli: CliContext, table: TableName, path: Path | None, dry_run: bool) -> TableSchema:
    if path is None:
        return merged_schema(TablePlace(fs, cli.database(), table))
    definition = load_schema(fs, path).materialised().schema
    if definition.full_name != str(table):
        raise SettingsError(
            "--schema is that of another table",
            where=path,
            expected=table,
            found=definition.full_name,
            hint="check both",
        )
    if dry_run and load_history(TablePlace(fs, cli.layout(), table)) == []:
        return definition
    deploy_schema(fs, cli.layout(), path, dry_run=dry_run)
    return merged_schema(TablePlace(fs, cli.database(), table))


def _rows(job: MergeJob, opened: ExitStack, given: ImportedRows, dates: tuple[str, ...] | None) -> ImportSource:
    place, schema, merge, fs = job.place, job.schema, job.options, job.place.fs
    conversions = given.conversions(schema)
    if _QUERY.match(given.source) and not Path(given.source).exists():
        given.refuse_tree_options("a query")
        from sparkhaven.readers.sql.query import QueryOptions, open_query  # DuckDB: only a query needs it

        result = opened.enter_context(
            open_query(place.layout.root, given.source, QueryOptions(memory=merge.memory), fs=fs)
        )
        choice = FrameChoice(given.source, "sql", dates, conversions, merge.memory, merge.allow_empty)
        return FrameRows(place, schema, result.batches.schema, run_reader(fs, result.batches), choice)
    path = local_path(given.source).absolute()
    if not fs.is_dir(path):
        raise SettingsError(
            "--from names neither a directory nor a query",
            expected="a directory of Parquet files, one of a Delta table, or a SELECT over tables named NS.T",
            found=repr(given.source),
            hint="check the path. Quote a query as one word",
        )
    if is_table(fs, path):
        given.refuse_tree_options("a Delta table")
        tree = delta_tree(fs, path, schema, conversions.ignored)
    else:
        template = None if given.value is None else ValueTemplate.parse(given.value)
        tree = find_tree(fs, path, schema, given.layout, raw_values=given.raw_values, value=template)
    if tree.remark is not None:
        job.run.note(tree.remark)
    return TreeRows(fs, schema, tree, dates, conversions, allow_missing=merge.allow_empty)
