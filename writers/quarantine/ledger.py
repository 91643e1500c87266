"""What a stream's quarantine has not taken over from the commit log yet: the log decides, the quarantine follows.

Rejected rows are parked before the commit point, under the number of the epoch that is about to be committed. So a row
can be there although its epoch never came to be (the process died in between), or was rolled back since; both times
the stream reads the source again, and whatever it rejects then is parked again. Such epochs are *dead*: rows that were
parked for them go, and rows that were sent again by them are as if they had not been. Epoch numbers of the log are
never used twice, but one that was not committed is; therefore the ledger is brought up to date, and the quarantine with
it, at each start before anything else may be parked.

*A ledger that is lost* is made again from the log, which says by the newest epoch that rows were rejected in
(``StreamState.rejected``) that there was one: dead are all epochs that the log knows to be rolled back, and those after
its newest; to remove their rows once more changes nothing. Checkpoints of earlier releases do not have that number, and
before the first epoch with a rejected row there is none: then the loss is not seen, and rows that an interrupted batch
has parked stay until its epoch is committed, under which number they are. What is committed is not touched by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from store.epochs.files.ledger import Ledger, read_ledger, write_ledger
from store.epochs.files.load import list_rollbacks
from store.epochs.state.replay import StreamState
from store.epochs.state.rollbacks import MAX_PAIRS
from store.io.fs import Fs
from store.layout import Layout, TableName

NEVER = 2**62  # above all numbers of epochs


@dataclass(frozen=True, slots=True)
class Requeue:
    """Rows on their way back into the table: a file in ``layout.requeues``, for one range of positions, one epoch."""

    path: Path
    start: int
    epoch: int


def follow(ledger: Ledger, epoch: int, rollbacks: Iterable[tuple[int, int]]) -> Ledger:
    """The ledger brought up to a log at ``epoch``; ``rollbacks`` are pairs of their own epoch and the restored one."""
    dead, seen = list(ledger.dead), ledger.seen
    for made, restored in sorted(rollbacks):
        if made > seen:
            dead.append((restored, made))
            seen = made
    newest = ledger.newest
    if newest > epoch:
        dead.append((epoch, newest))
        newest = epoch
    return replace(ledger, newest=newest, seen=seen, dead=tuple(dead))


def follow_log(
    fs: Fs, layout: Layout, table: TableName, state: StreamState, *, read_only: bool = False
) -> Ledger | None:
    """The ledger brought up to the log of a stream, and written; None where nothing was ever parked.

    The caller holds the stream, unless ``read_only``.
    """
    ledger = read_ledger(fs, layout, table, state.stream)
    if ledger is not None:
        followed = follow(ledger, state.epoch, list_rollbacks(fs, layout, table, state.stream))
    elif state.rejected:
        place = layout.quarantine(state.stream)
        followed = rebuilt_ledger(state, str(place) if fs.stat(place / "_delta_log") is not None else "")
    else:
        return None
    if followed != ledger and not read_only:
        write_ledger(fs, layout, table, state.stream, followed)
    return followed


def rebuilt_ledger(state: StreamState, place: str) -> Ledger:
    """A ledger in place of a lost one, from what the log remembers; ``place`` of the quarantine if it is known."""
    apart = state.rolled_back[1:] if len(state.rolled_back) >= MAX_PAIRS else state.rolled_back
    seen = max((made for _, made in apart), default=0)
    return Ledger(place, "", state.epoch, seen, (*apart, (state.epoch, NEVER)))


def leftovers(fs: Fs, layout: Layout, table: TableName, state: StreamState) -> tuple[list[Requeue], list[Requeue]]:
    """Requeues that were interrupted: those that were committed and those that were not.

    The commit log holds the position of those that were; of the others nothing is in the table.
    """
    directory, position = layout.requeues(table, state.stream), state.offsets.requeued
    found = []
    for name in fs.names(directory):
        start, _, epoch = name.removesuffix(".parquet").partition("-")
        if name.endswith(".parquet") and start.isdigit() and epoch.isdigit():
            found.append(Requeue(directory / name, int(start), int(epoch)))
    committed = [requeue for requeue in found if requeue.start < position]
    return committed, [requeue for requeue in found if requeue.start >= position]


def requeue_path(layout: Layout, table: TableName, stream: str, start: int, epoch: int) -> Path:
    """The file for rows that are sent again from position ``start`` on, in the epoch of that number."""
    return layout.requeues(table, stream) / f"{start}-{epoch}.parquet"
