"""Going back to an older epoch: what has to be recorded and done, read and checked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from store.epochs.files.load import load_stream
from store.epochs.merged import require_unmerged
from store.epochs.recovery.settlement import Settlement, settle_locations
from store.epochs.state.records import RollbackRecord
from store.epochs.state.replay import StreamState
from store.errors import CorruptFileError
from store.io.fs import Fs
from store.layout import Layout, LocationKey, TableName


@dataclass(frozen=True, slots=True)
class Rollback:
    """The record that makes the older state an epoch, the state after it, and what its directories need then."""

    record: RollbackRecord
    state: StreamState
    plan: Settlement


def plan_rollback(
    fs: Fs,
    layout: Layout,
    table: TableName,
    before: StreamState,
    to: int,
    *,
    time_ms: int,
    reason: str = "asked for",
    damaged: Collection[LocationKey] = (),
) -> Rollback | None:
    """The way from ``before``, the newest state, to epoch ``to``; None where that is the newest one. Reads only.

    ``damaged`` are locations whose files do not have what the newest epoch needs. CorruptFileError where epoch ``to``
    needs that too. TableNotFoundError: that epoch is not kept. TableExistsError: rows that would go are in history.
    """
    target = load_stream(fs, layout, table, before.stream, epoch=to)
    if to == before.epoch:
        return None
    require_unmerged(fs, layout, table, before.stream, to)
    touched = {key for key, location in before.locations.items() if location.epoch > to}
    changed = tuple(sorted(key for key in touched if key in target.locations))
    record = RollbackRecord(before.n + 1, before.epoch + 1, before.generation, time_ms, to, reason, changed)
    target.apply(record)
    target.note(record)
    asked = {*changed, *(key for key in damaged if key in target.locations)}
    try:
        plan = settle_locations(fs, layout, table, target, sorted(asked), ahead=False)
    except CorruptFileError as error:
        raise CorruptFileError(
            f"epoch {to} needs what is damaged: {error.what}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint="go back further, restore the file from a copy, or set its location aside with `sparkhaven recover"
            f" {table} {before.stream} --quarantine INTERNAL/DATE`; nothing was changed or deleted",
        ) from error
    gone = sorted(key for key in touched if key not in target.locations)
    plan.stray_locations.extend(layout.intraday_location(table, key) for key in gone)
    return Rollback(record, target, plan)
