"""The command ``import``: a tree of Parquet files into history."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext, error_json, exit_with
from sparkhaven.jobs.cli.options import (
    DryRun,
    LayoutOption,
    LossyOption,
    NullCharOption,
    RawValuesOption,
    TableArgument,
    ValueOption,
    WorkersOption,
    help_end,
    memory_bytes,
    split_dates,
)
from sparkhaven.jobs.settings.deployment import deploy_schema
from sparkhaven.store.errors import EXIT_DONE, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.date_ranges import refuse_malformed
from sparkhaven.store.schema.deployed.deploy import load_history
from sparkhaven.store.schema.document.schema_file import load_schema
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.null_char import chosen_null_char
from sparkhaven.writers.foreign_values import AllowedConversions, lossy_columns
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.transfer.date_import import Imported, ImportOptions, ImportOutcome, import_dates
from sparkhaven.writers.transfer.extended import follow
from sparkhaven.writers.transfer.tree_walk import ValueTemplate
from sparkhaven.writers.transfer.trees import FoundTree, TreeRows, find_tree


def register(app: typer.Typer) -> None:
    lines = (
        "import Nyc13.Flight --from /data/flights --dry-run",
        "import Nyc13.Flight --from /data/july4 --dates 2013-07-04 --replace",
    )
    done = "imported, or imported before"
    bad_data = "damaged files, a value that the table cannot hold, a date failed"
    usage = "wrong options, columns or types, no such table, history has a date already"
    retry = "a merge runs, files were changed meanwhile, no space on the disk"
    app.command("import", epilog=help_end(*lines, done=done, bad_data=bad_data, usage=usage, retry=retry))(import_tree)


def import_tree(
    ctx: typer.Context,
    name: TableArgument,
    source: Annotated[Path, typer.Option("--from", metavar="DIR", parser=local_path, help="Directory of the tree.")],
    layout: LayoutOption = "auto",
    dates: Annotated[
        list[str] | None,
        typer.Option(
            "--dates",
            "--date",
            metavar="D|A..B",
            callback=split_dates,
            help="A date, or all dates from A to B, of the tree. May be repeated. The date of rows that have none.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace dates that history has.")] = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.schema", parser=local_path, help="Deploy this schema first, for a table that is new."
        ),
    ] = None,
    raw_values: RawValuesOption = False,
    value: ValueOption = None,
    lossy: LossyOption = None,
    binary_as_text: Annotated[
        bool, typer.Option("--binary-as-text", help="Columns of bytes without annotation are texts in UTF-8.")
    ] = False,
    null_char: NullCharOption = None,
    workers: WorkersOption = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of one worker.")] = "1GiB",
    dry_run: DryRun = False,
) -> None:
    """Imports a tree of Parquet files into history, date by date.

    Types are mapped strictly: a value that is not exactly representable is an error. Each date is ordered, grouped,
    checked by digests and published as by a merge.
    """
    cli: CliContext = ctx.obj
    fs, table = Fs(), TableName.parse(name)
    place = TablePlace(fs, cli.layout(), table)
    definition = _schema(fs, cli, table, schema, dry_run)
    refuse_malformed(dates or (), all_values(place), new=True)
    template = None if value is None else ValueTemplate.parse(value)
    tree = find_tree(fs, source.absolute(), definition, layout, raw_values=raw_values, value=template)
    if tree.remark is not None:
        cli.note(tree.remark)
    merge = MergeOptions(memory=memory_bytes(memory), workers=workers or 1)
    null = chosen_null_char(null_char, os.environ)
    conversions = AllowedConversions(lossy_columns(definition, lossy or []), binary_as_text, null)
    rows = TreeRows(fs, definition, tree, tuple(dates) if dates else None, conversions)
    options = ImportOptions(replace, merge)
    with ExitStack() as opened:
        executor = opened.enter_context(LocalExecutor(workers or 1))
        results = import_dates(
            place, definition, rows, options, executor=executor, clock=time.time, dry_run=dry_run, on_progress=cli.note
        )
        code = _show(cli, name, tree, results, dry_run)
        if not dry_run:
            follow(place, cli.note)
    exit_with(code)


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


def _show(cli: CliContext, name: str, tree: FoundTree, results: Iterator[Imported], dry_run: bool) -> int:
    """Prints one result a date as it comes; the exit code is that of the first error."""
    code, rows, dates = EXIT_DONE, 0, 0
    for imported in results:
        date = imported.part
        failed = None if imported.error is None else as_ours(imported.error)
        dates += 1
        rows += date.rows if failed is None else 0
        record = {
            "table": name,
            "date": date.value,
            "outcome": imported.outcome,
            "layout": tree.layout,
            "from": str(tree.root),
            "rows": date.rows,
            "files": len(date.leaves),
            "destinations": dict(imported.destinations),
            "generation": imported.generation,
            "digests": imported.digests,
            "intraday_rows": imported.intraday,
            "seconds": round(imported.seconds, 3),
            "dry_run": dry_run,
        }
        if failed is not None:
            code = code or failed.exit_code
            cli.note(f"{date.value}: {failed}")
            record["error"] = error_json(failed)
        if imported.clean_error is not None:
            record["clean_error"] = error_json(as_ours(imported.clean_error))
            cli.note(f"{date.value}: is published, but files could not be removed ({as_ours(imported.clean_error)})")
        cli.result(record, f"{date.value}: {_sentence(imported)}")
        if imported.intraday and failed is None:
            stay = "stay there: reads show them too, and the next merge adds them"
            cli.note(f"{date.value}: {imported.intraday:,} rows of this date are intraday and {stay}")
    cli.note(f"{dates:,} dates, {rows:,} rows{' to import (dry run)' if dry_run else ''}")
    return code


def _sentence(imported: Imported) -> str:
    rows = f"{imported.part.rows:,} rows of {len(imported.part.leaves):,} files"
    if imported.outcome is ImportOutcome.UNCHANGED:
        return f"imported before, {rows}"
    return f"would import {rows}" if imported.outcome is ImportOutcome.PLANNED else f"{imported.outcome}, {rows}"
