"""Columns of history from Python: by expressions, or by functions over Arrow record batches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store import next_steps
from sparkhaven.store.errors import SparkhavenError, TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_ours
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace, writable_layout
from sparkhaven.store.scan.seen_history import history_values
from sparkhaven.store.scan.selection import names, range_of, refuse_malformed, within
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.merge.executor import LocalExecutor, local_workers
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.rewrites.column_changes import ColumnChanges, Value, deployed_changes
from sparkhaven.writers.rewrites.rewrite_plan import RewritePlanner
from sparkhaven.writers.transfer.extended import follow


@dataclass(frozen=True, slots=True)
class RewrittenDate:
    """A rewritten date: its rows, the new generation of its history, and rows with another value by column.

    ``done`` False: a killed call had rewritten it so before, and nothing is changed.
    """

    date: str
    rows: int
    generation: int
    changed: dict[str, int]
    done: bool


def rewrite_columns(
    root: str | Path,
    name: str,
    columns: Mapping[str, Value],
    *,
    dates: str | Sequence[str],
    inputs: Iterable[str] | None = None,
    lossy: Iterable[str] = (),
    again: bool = False,
) -> list[RewrittenDate]:
    """Computes columns of merged dates of the table ``name``, and publishes each date as a new generation.

    ``columns``: what each is set to. An expression is of the language of ``where``, with ``CONDITION ? VALUE : VALUE``,
    null, arithmetic and functions. A function gets record batches of up to 262,144 rows, and returns an Arrow array
    with a value for each row; all see the values from before. ``inputs``: the columns of these batches (default: all),
    with the types of ``open_table``. ``dates``: dates, or ranges like ``2026-11-01..2026-11-30``. ``lossy``: columns of
    floating numbers that take the nearest value.

    A date whose last merge was this very rewrite is left as it is, unless ``again``. A function is known by its name
    and code. Dates come one after the other; the first error ends the call, and those before it stay rewritten.

    TableNotFoundError: no such table, or no merged date. SettingsError, SchemaParseError: a column or expression cannot
    be used. SchemaMismatchError: a value cannot be stored in its column. LockLostError: a merge is running.
    """
    place = TablePlace(Fs(), writable_layout(local_path(root)), TableName.parse(name))
    changes = ColumnChanges(set=dict(columns), inputs=None if inputs is None else tuple(inputs), lossy=frozenset(lossy))
    deployed_changes(changes, load_deployed(place))
    values = _chosen(place, [dates] if isinstance(dates, str) else list(dates))
    with LocalExecutor(local_workers()) as executor:
        planner = RewritePlanner(changes, again=again)
        merges = DateMerges(place, MergeOptions(), executor, time.time, planner=planner)
        rewritten: list[RewrittenDate] = []
        failed: SparkhavenError | OSError | None = None
        for result in merges.locked(values, stop_on_error=True):
            if (failed := result.error) is not None:
                break
            here = {c.name: c.changed for c in result.corrections if c.generation == result.generation}
            done = result.outcome is not MergeOutcome.NOTHING
            rewritten.append(RewrittenDate(result.value, result.rows_out, result.generation, here, done))
    follow(place)
    if failed is not None:
        raise as_ours(failed)
    return rewritten


def _chosen(place: TablePlace, texts: Sequence[str]) -> list[str]:
    """The dates of history that are named. TableNotFoundError: there is none."""
    merged = history_values(place)
    refuse_malformed(texts, merged)
    chosen = {value for text in texts for value in merged if _named(value, text)}
    missing = [text for text in texts if not any(_named(value, text) for value in chosen)]
    if missing:
        raise TableNotFoundError(
            "date has no history to rewrite",
            where=f"{place.table} {missing[0]}",
            expected="merged dates",
            found="none",
            hint=next_steps.merged_dates(place.table),
        )
    return sorted(chosen)


def _named(value: str, text: str) -> bool:
    ends = range_of(text)
    return names(text, value) if ends is None else within(value, *ends)
