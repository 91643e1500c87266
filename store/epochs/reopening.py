"""Truncated locations that take rows again before a delete has come to them: what a stream does with late rows.

1. *check*: the truncate is on record, and the newest merge of the date holds and has these rows;
2. rename the directory to ``.doomed-<table>-<since>`` beside it, and sync: readers of older snapshots read it there;
3. append the delete to the removals, with the proof of the truncate, and sync: from here on the location is gone;
4. rows of the batch make a new location under its key, which the next merge of the date adds to history.

Nothing is unlinked: ``delete`` does that, after the grace period and with a proof of its own. What a kill has left
between 2 and 3 the next start of the stream finishes before it looks at directories. So a directory with new rows is
never taken for the truncated one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparkhaven.store.epochs.files.removals import read_removals, write_removals
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase, aside_name
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import StreamPlace, TablePlace


def aside_of(place: TablePlace, location: LocationState) -> Path:
    """Where the directory of a location lies once it was moved away."""
    directory = place.intraday_location(location.key)
    return directory.with_name(aside_name(directory.name, location.since))


def move_away(place: TablePlace, locations: Sequence[LocationState]) -> None:
    """Step 2, with one sync for all; it syncs also what a killed run has renamed.

    Nothing is renamed where it was done already: then what is in its place are files that were never committed.
    """
    directories = [place.intraday_location(location.key) for location in locations]
    for location, directory in zip(locations, directories, strict=True):
        aside = aside_of(place, location)
        if place.fs.stat(directory) is not None and place.fs.stat(aside) is None:
            with place.fs.during("delete-rename"):
                place.fs.rename(directory, aside)
    place.fs.sync_dirs(path.parent for path in directories if place.fs.stat(path.parent) is not None)


def finish_removal(
    place: StreamPlace, state: StreamState, location: LocationState, *, now_ms: int, commit_lock: Lock
) -> bool:
    """Steps 1 to 3 for a truncated location; the caller holds the commit lock and has applied all removals.

    False, and nothing is changed: no record says that history has its rows.
    """
    truncate = _truncates(place, [location]).get(location.key)
    if truncate is None or not _in_history(place, state, truncate):
        return False
    move_away(place, [location])
    record_removals(place, [_deleted(state, truncate, now_ms)], commit_lock)
    return True


def interrupted_removals(place: StreamPlace, state: StreamState, *, now_ms: int) -> list[Removal]:
    """The deletes that a kill between steps 2 and 3 has left unrecorded."""
    truncated = state.locations.truncated()
    moved = [location for location in truncated if place.fs.stat(aside_of(place, location)) is not None]
    return [_deleted(state, truncate, now_ms) for truncate in _truncates(place, moved).values()] if moved else []


def record_removals(place: StreamPlace, removals: list[Removal], commit_lock: Lock) -> None:
    """Step 3."""
    with place.fs.during("delete-record"):
        write_removals(place, removals, commit_lock=commit_lock)


def _truncates(place: StreamPlace, locations: list[LocationState]) -> dict[LocationKey, Removal]:
    by_key = {location.key: location for location in locations}
    return {
        removal.key: removal
        for _, removal in read_removals(place).entries
        if removal.phase == RemovalPhase.TRUNCATE
        and (location := by_key.get(removal.key)) is not None
        and removal.means(location)
    }


def _in_history(place: StreamPlace, state: StreamState, truncate: Removal) -> bool:
    """Whether the newest merge of the date has the rows that were truncated, as ``delete`` demands it."""
    record = newest(place, truncate.key.value)
    if record is None or record.proof is None or not record.proof.holds:
        return False
    key = state.stream, truncate.key.internal, truncate.since
    return truncate.rows == 0 or any(taken.key == key and taken.rows == truncate.rows for taken in record.inputs)


def _deleted(state: StreamState, truncate: Removal, now_ms: int) -> Removal:
    numbers = truncate.rows, RemovalPhase.DELETE, state.epoch, truncate.proof, now_ms, truncate.made_ms
    return Removal(truncate.key, truncate.since, *numbers, state.generation)
