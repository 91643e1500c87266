"""``merge --from``: rows of a tree, a Delta table or a query as history. Imports, ``merge_frame`` and this are one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.store.delta.log import is_table
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.date_ranges import refuse_malformed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.null_char import chosen_null_char
from sparkhaven.writers.foreign_values import AllowedConversions, lossy_columns
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import Executor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.transfer.date_import import ImportOptions, import_dates
from sparkhaven.writers.transfer.frames import FrameChoice, FrameRows, ignored_columns, run_reader
from sparkhaven.writers.transfer.import_source import ImportSource
from sparkhaven.writers.transfer.tree_walk import ValueTemplate
from sparkhaven.writers.transfer.trees import TreeRows, delta_tree, find_tree

AGAIN = "--rewrite replaces it, --upsert KEYS joins it: new rows replace those with equal keys"
_QUERY = re.compile(r"\s*\(*\s*(?:select|with|from|values)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """What ``--from`` names, and its options. ``dates``: those that are taken, or the one of rows that have none."""

    text: str
    dates: tuple[str, ...] | None
    ignore: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    layout: str = "auto"
    raw_values: bool = False
    value: str | None = None

    @property
    def tree_options(self) -> list[str]:
        """The given options that only trees have."""
        given = {"--layout": self.layout != "auto", "--raw-values": self.raw_values, "--value": self.value is not None}
        return [name for name, is_given in given.items() if is_given]


def merge_from(
    cli: CliContext,
    place: TablePlace,
    schema: TableSchema,
    source: Source,
    options: MergeOptions,
    *,
    executor: Executor,
    dry_run: bool,
) -> Iterator[DateResult]:
    """One result a date. Before anything is written: SettingsError, TableNotFoundError, SchemaMismatchError,
    TableExistsError, and what reading the source raises.
    """
    refuse_malformed(source.dates or (), all_values(place), new=True)
    with ExitStack() as opened:
        rows = _rows(cli, opened, place, schema, source, options)
        cli.note(f"merges the rows of {rows.layout} {rows.name}")
        chosen = ImportOptions(options.rewrite, options, AGAIN)
        results = import_dates(
            place, schema, rows, chosen, executor=executor, clock=time.time, dry_run=dry_run, on_progress=cli.note
        )
        for date in results:
            yield date.merged()


def _rows(
    cli: CliContext,
    opened: ExitStack,
    place: TablePlace,
    schema: TableSchema,
    source: Source,
    options: MergeOptions,
) -> ImportSource:
    ignored = ignored_columns(source.ignore, schema)
    null = chosen_null_char(None, os.environ)
    conversions = AllowedConversions(lossy_columns(schema, source.lossy), null_char=null, ignored=ignored)
    if _QUERY.match(source.text) and not Path(source.text).exists():
        _refuse_tree_options(source, "a query")
        return _query_rows(opened, place, schema, source, options, conversions)
    fs, path = place.fs, local_path(source.text).absolute()
    if fs.is_dir(path):
        if is_table(fs, path):
            _refuse_tree_options(source, "a Delta table")
            tree = delta_tree(fs, path, schema, ignored)
        else:
            template = None if source.value is None else ValueTemplate.parse(source.value)
            tree = find_tree(fs, path, schema, source.layout, raw_values=source.raw_values, value=template)
        if tree.remark is not None:
            cli.note(tree.remark)
        return TreeRows(fs, schema, tree, source.dates, conversions, allow_missing=options.allow_empty)
    raise SettingsError(
        "--from names neither a directory nor a query",
        expected="a directory of Parquet files, one of a Delta table, or a SELECT over tables named NS.T",
        found=repr(source.text),
        hint="check the path. Quote a query as one word",
    )


def _refuse_tree_options(source: Source, kind: str) -> None:
    if source.tree_options:
        raise SettingsError(
            f"{source.tree_options[0]} is for trees of Parquet files",
            where=f"--from {source.text}",
            expected="a tree, whose directories give the dates",
            found=kind,
            hint="leave it out: the rows have their dates",
        )


def _query_rows(
    opened: ExitStack,
    place: TablePlace,
    schema: TableSchema,
    source: Source,
    options: MergeOptions,
    conversions: AllowedConversions,
) -> ImportSource:
    from sparkhaven.readers.sql.query import open_query  # DuckDB: only a query needs it

    result = opened.enter_context(open_query(place.layout.root, source.text, memory=options.memory, fs=place.fs))
    choice = FrameChoice(
        source.text,
        "sql",
        source.dates,
        conversions,
        options.memory,
        options.allow_empty,
    )
    return FrameRows(place, schema, result.batches.schema, run_reader(place.fs, result.batches), choice)
