"""Rows corrected: columns of history computed anew date by date, and rows that match a condition deleted everywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from sparkhaven.jobs.date_choice import DateChoice
from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.jobs.session.spark_or_local import HistoryRun, choose_for_merge, is_submitted
from sparkhaven.jobs.settings.keywords import Names, as_names
from sparkhaven.store.merges.history import row_content
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.removal.row_removal import find_rows
from sparkhaven.writers.rewrites.rewrite_plan import ColumnChanges, RewritePlanner, Value, deployed_changes
from sparkhaven.writers.rewrites.row_deletion import DeletedRows
from sparkhaven.writers.rewrites.row_deletion import delete_rows as delete_matching
from sparkhaven.writers.transfer.extended import follow


class RewriteKeywords(TypedDict, total=False):
    """What is changed of columns, as the options of ``sparkhaven rewrite-column``. ``set``: what columns are set to, an
    expression or a function of record batches. ``inputs``: the columns that functions get. ``again``: also where a
    date was rewritten so before."""

    set: Mapping[str, Value]
    add: Names
    drop: Names
    rename: Mapping[str, str]
    retype: Mapping[str, str]
    inputs: Names | None
    lossy: Names
    again: bool


def column_changes(given: RewriteKeywords) -> ColumnChanges:
    """What the words change."""
    return ColumnChanges(
        add=as_names(given.get("add")) or (),
        drop=as_names(given.get("drop")) or (),
        rename=dict(given.get("rename", {})),
        retype=dict(given.get("retype", {})),
        set=dict(given.get("set", {})),
        inputs=as_names(given.get("inputs")),
        lossy=frozenset(as_names(given.get("lossy")) or ()),
    )


def rewrite_dates(
    place: TablePlace,
    changes: ColumnChanges,
    choice: DateChoice,
    run: HistoryRun,
    options: MergeOptions | None = None,
    *,
    again: bool = False,
) -> Iterator[DateResult]:
    """Rewrites columns of merged dates, each as a new generation; a result as each is done.

    A date whose last merge was this very rewrite is left as it is, unless ``again``. The extended tree follows at the
    end. Before any date is looked at: SettingsError, SchemaParseError for changes that the table does not take,
    TableNotFoundError where no merged date is chosen.
    """
    deployed_changes(changes, load_deployed(place))
    values = choice.pick(history_values(place), time.time(), lambda: all_values(place), "merged ")
    return _rewritten(place, changes, values, run, options or MergeOptions(), again=again)


@dataclass(frozen=True, slots=True)
class RowsDeleted:
    """What was deleted, or of a dry run would be.

    ``dates``: rows of each date, where it has some. ``epochs``: the epoch of each stream whose unmerged rows went.
    ``generations``: the new generation of each date of whose history rows went.
    """

    rows: int
    dates: dict[str, int]
    epochs: dict[str, int]
    generations: dict[str, int]

    @classmethod
    def of(cls, done: DeletedRows, *, dry_run: bool) -> RowsDeleted:
        if dry_run:
            return cls(done.matching.rows, done.matching.of_dates(), {}, {})
        generations = {date: deletion.generation for date, deletion in done.history.items()}
        return cls(done.rows, done.of_dates(), done.epochs, generations)


def delete_rows(
    place: TablePlace, where: str, dates: Sequence[str] | None, note: Callable[[str], None], *, dry_run: bool = False
) -> DeletedRows:
    """Deletes the rows that match, or with ``dry_run`` counts them; ``failed`` has the errors of dates.

    Raises what ``row_deletion.delete_rows`` raises.
    """
    if dry_run:
        return DeletedRows(find_rows(place, where, dates), {}, {}, {}, {})
    with LocalExecutor(local_workers()) as executor:
        merges = DateMerges(place, MergeOptions(), executor, time.time, note)
        done = delete_matching(merges, where, dates, partial(open_log, note=note))
    follow(place, note)
    return done


def _rewritten(
    place: TablePlace, changes: ColumnChanges, values: list[str], run: HistoryRun, options: MergeOptions, *, again: bool
) -> Iterator[DateResult]:
    with ExitStack() as opened:
        executor, start_spark = run.executors(opened, place, "rewrite-column")
        if not run.dry_run:
            rows = sum(row_content(newest(place, value)).rows for value in values)
            chosen = choose_for_merge(run.where, is_submitted(os.environ), rows, (), options.parallel_rows)
            run.note(f"rewrites {'in this process, without Spark' if chosen.local else 'in Spark'}: {chosen.why}")
            executor = executor if chosen.local else start_spark()
        merges = DateMerges(place, options, executor, time.time, run.note, RewritePlanner(changes, again=again))
        yield from merges.planned(values) if run.dry_run else merges.locked(values, stop_on_error=run.stop_on_error)
    if not run.dry_run:
        follow(place, run.note)
