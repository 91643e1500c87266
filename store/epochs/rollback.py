"""Plans a rollback to an older epoch: its record and the changes of directories, before anything is changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.recovery.directory_plan import Settlement, settle_locations
from sparkhaven.store.epochs.rollback_guard import require_unmerged
from sparkhaven.store.epochs.state.log_records import RollbackRecord
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen


@frozen
class Rollback:
    """The record that commits the older state as an epoch, the state after it, and the changes of its directories."""

    record: RollbackRecord
    state: StreamState
    plan: Settlement


def plan_rollback(
    place: TablePlace,
    before: StreamState,
    to: int,
    *,
    time_ms: int,
    reason: str = "asked for",
    damaged: Collection[LocationKey] = (),
) -> Rollback | None:
    """The rollback from ``before``, the newest state, to epoch ``to``; None if that is the newest one. Reads only.

    ``damaged``: locations whose files lack rows of the newest epoch. CorruptFileError: epoch ``to`` has those rows too.
    TableNotFoundError: that epoch is not kept. TableExistsError: history has rows that would be removed.
    """
    target = load_stream(place.of_stream(before.stream), epoch=to)
    if to == before.epoch:
        return None
    require_unmerged(place.of_stream(before.stream), to)
    touched = {key for key, location in before.locations.items() if location.epoch > to}
    changed = tuple(sorted(key for key in touched if key in target.locations))
    record = RollbackRecord(before.n + 1, before.epoch + 1, before.generation, time_ms, to, reason, changed)
    target.apply(record)
    target.note(record)
    asked = {*changed, *(key for key in damaged if key in target.locations)}
    try:
        plan = settle_locations(place, target, sorted(asked), ahead=False)
    except CorruptFileError as error:
        location = "/".join(Path(str(error.where)).parts[-4:-2])
        raise CorruptFileError(
            f"epoch {to} has a damaged location: {error.what}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint="roll back further, restore the file from a copy, or set its location aside with `sparkhaven recover"
            f" {place.table} {before.stream} --quarantine {location}`. Nothing was changed or deleted",
        ) from error
    gone = sorted(key for key in touched if key not in target.locations)
    plan.stray_locations.extend(place.intraday_location(key) for key in gone)
    return Rollback(record, target, plan)
