"""Columns of history, computed anew: which dates, where they are rewritten, and the result of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack

from sparkhaven.jobs.date_choice import DateChoice
from sparkhaven.jobs.session.spark_or_local import HistoryRun, choose_for_merge, is_submitted
from sparkhaven.store.merges.history import row_content
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.rewrites.column_changes import ColumnChanges, deployed_changes
from sparkhaven.writers.rewrites.rewrite_plan import RewritePlanner
from sparkhaven.writers.transfer.extended import follow


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
