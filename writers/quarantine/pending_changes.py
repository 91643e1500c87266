"""The ledger of a quarantine: which changes of the commit log it still has to apply. The log decides.

Rejected rows are written to quarantine before the commit point, under the number of the epoch to be committed. So a row
can be there although its epoch was never committed (the process died in between), or was rolled back; in both cases
the stream reads the source again and writes what it rejects then. Such epochs are *dead*: rows written under them are
removed, and requeues by them are undone. The log never reuses epoch numbers, but a number that was not committed is
used again; therefore each start first brings the ledger, and then the quarantine, up to date with the log.

*A lost ledger* is rebuilt from the log, whose newest epoch with rejected rows (``StreamState.rejected``) shows that
there was one: dead are all rolled-back epochs, and those after the newest; removing their rows again changes nothing.
Checkpoints of earlier releases lack that number, and before the first epoch with a rejected row there is none: then the
loss is not noticed, and rows of an interrupted batch stay until the epoch of their number is committed. Committed rows
are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.delta.log import is_table
from sparkhaven.store.epochs.reading.stream_state import list_rollbacks
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.epochs.state.rollbacks import MAX_PAIRS
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger, write_ledger

NEVER = 2**62  # above all numbers of epochs


@dataclass(frozen=True, slots=True)
class Requeue:
    """Rows sent back to the table: a file in ``layout.requeues`` for one range of positions and one epoch."""

    path: Path
    start: int
    epoch: int


def follow(ledger: Ledger, epoch: int, rollbacks: Iterable[tuple[int, int]]) -> Ledger:
    """The ledger updated to a log at ``epoch``; ``rollbacks`` are pairs (own epoch, restored epoch)."""
    dead, seen = list(ledger.dead), ledger.seen
    for rollback, restored in sorted(rollbacks):
        if rollback > seen:
            dead.append((restored, rollback))
            seen = rollback
    newest = ledger.newest
    if newest > epoch:
        dead.append((epoch, newest))
        newest = epoch
    return replace(ledger, newest=newest, seen=seen, dead=tuple(dead))


def follow_log(place: TablePlace, state: StreamState, *, read_only: bool = False) -> Ledger | None:
    """Updates the ledger to the log of a stream and writes it; None if the quarantine never had a row.

    The caller holds the stream's lock, unless ``read_only``.
    """
    ledger = read_ledger(place.of_stream(state.stream))
    if ledger is not None:
        followed = follow(ledger, state.epoch, list_rollbacks(place.of_stream(state.stream)))
    elif state.rejected:
        directory = place.layout.quarantine(state.stream)
        followed = rebuilt_ledger(state, str(directory) if is_table(place.fs, directory) else "")
    else:
        return None
    if followed != ledger and not read_only:
        write_ledger(place.of_stream(state.stream), followed)
    return followed


def rebuilt_ledger(state: StreamState, quarantine: str) -> Ledger:
    """A ledger rebuilt from the log; ``quarantine``: its directory if it is known."""
    apart = state.rolled_back[1:] if len(state.rolled_back) >= MAX_PAIRS else state.rolled_back
    seen = max((rollback for _, rollback in apart), default=0)
    return Ledger(quarantine, "", state.epoch, seen, (*apart, (state.epoch, NEVER)))


def leftovers(place: TablePlace, state: StreamState) -> tuple[list[Requeue], list[Requeue]]:
    """Interrupted requeues: (committed, not committed).

    The commit log has the positions of committed ones; no row of the others is in the table.
    """
    directory, position = place.of_stream(state.stream).requeues, state.offsets.requeued
    requeues = []
    for name in place.fs.names(directory):
        start, _, epoch = name.removesuffix(".parquet").partition("-")
        if name.endswith(".parquet") and start.isdigit() and epoch.isdigit():
            requeues.append(Requeue(directory / name, int(start), int(epoch)))
    committed = [requeue for requeue in requeues if requeue.start < position]
    return committed, [requeue for requeue in requeues if requeue.start >= position]


def requeue_path(layout: Layout, table: TableName, stream: str, start: int, epoch: int) -> Path:
    """The file of rows that are requeued from position ``start`` on, in that epoch."""
    return layout.requeues(table, stream) / f"{start}-{epoch}.parquet"
