"""The door for maintenance: emptying or deleting locations of a stream, checked against its committed state.

Under the lock that a commit takes too, so no rows can arrive between the check and the record. The stream need
not be stopped: it meets the removal at its next commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from store.epochs.load import load_stream
from store.epochs.publish import publish_location
from store.epochs.removals import Removal, read_removals, write_removals
from store.epochs.replay import StreamState
from store.epochs.state import LocationState
from store.errors import SnapshotMovedError
from store.fs import Fs
from store.layout import Layout, TableName


def append_removals(fs: Fs, layout: Layout, table: TableName, stream: str, removals: Iterable[Removal]) -> int:
    """Records removals durably, all or none, and publishes emptied locations; returns how many were new.

    A removal that is recorded already is left out, so a plan can be applied again. ``truncate`` needs a location that
    holds exactly ``rows``, made at ``since``, unchanged since ``epoch`` and durable; ``delete`` needs a truncated one.
    Else SnapshotMovedError, and nothing is recorded. The files are the caller's to unlink.
    """
    gate = fs.lock(layout.stream_removals(table, stream), wait=True)
    assert gate is not None  # noqa: S101 - waiting never gives None
    try:
        done = {
            (removal.key, removal.since, removal.phase)
            for _, removal in read_removals(fs, layout, table, stream).entries
        }
        state = load_stream(fs, layout, table, stream)
        todo: list[Removal] = []
        emptied: list[LocationState] = []
        for removal in removals:
            if (removal.key, removal.since, removal.phase) in done:
                continue
            _require(state, removal)
            todo.append(replace(removal, epoch=state.epoch))
            left = state.remove(todo[-1])
            if left is not None:
                emptied.append(left)
        write_removals(fs, layout, table, stream, todo)  # none: what an earlier try recorded becomes durable
        for location in emptied:
            if location.key in state.locations:
                publish_location(fs, layout, table, stream, location)
        return len(todo)
    finally:
        gate.release()


def _require(state: StreamState, removal: Removal) -> None:
    found = state.locations.get(removal.key)
    if found is None or found.since != removal.since:
        since = None if found is None else f"made at epoch {found.since}"
        raise _moved(removal, f"a location made at epoch {removal.since}", since or "no such location")
    if removal.phase == "delete" and not found.truncated:
        raise _moved(removal, "a truncated location", f"one with {found.rows} rows")
    if removal.phase == "truncate" and (found.rows != removal.rows or found.epoch > removal.epoch):
        raise _moved(
            removal, f"{removal.rows} rows at epoch {removal.epoch}", f"{found.rows} rows of epoch {found.epoch}"
        )
    if found.epoch > state.durable:  # a power cut could bring the source to send its rows again
        raise _moved(removal, "an epoch that is synced to disk", f"epoch {found.epoch}, synced up to {state.durable}")


def _moved(removal: Removal, expected: str, found: str) -> SnapshotMovedError:
    return SnapshotMovedError(
        f"the location is not what the {removal.phase} was planned for",
        where=f"{removal.key.internal}/{removal.key.value}",
        expected=expected,
        found=found,
        hint="merge and validate the date again; nothing was removed",
        phase=removal.phase,
    )
